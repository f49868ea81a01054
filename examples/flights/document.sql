WITH flown AS (
  SELECT f.tailnum,
         count(*) AS flights,
         sum(CASE WHEN f.dep_time IS NULL THEN 1 ELSE 0 END) AS cancelled,
         avg(f.dep_delay) AS mean_departure_delay_min,
         max(f.arr_delay) AS worst_arrival_delay_min,
         sum(f.distance) AS miles,
         max(f.time_hour) AS last_hour,
         array_agg(DISTINCT f.origin || ' ' || f.dest ORDER BY f.origin || ' ' || f.dest) AS routes,
         array_agg(DISTINCT f.carrier ORDER BY f.carrier) AS carriers,
         min(w.visib) AS worst_visibility_miles,
         max(w.wind_speed) AS strongest_wind_mph
  FROM flights f
  LEFT JOIN weather w ON w.origin = f.origin AND w.time_hour = f.time_hour
  WHERE f.tailnum IS NOT NULL
  GROUP BY f.tailnum
)
SELECT flown.tailnum AS id,
       p.manufacturer, p.model, p.seats, p.engines, p.year AS built,
       flown.flights, flown.cancelled, flown.mean_departure_delay_min, flown.worst_arrival_delay_min, flown.miles,
       flown.last_hour, flown.routes, flown.carriers, flown.worst_visibility_miles, flown.strongest_wind_mph
FROM flown
LEFT JOIN planes p ON p.tailnum = flown.tailnum
