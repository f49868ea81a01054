WITH bought AS (
  SELECT ad_id, count(*) AS copurchases, count(DISTINCT other_id) AS partners, sum(qty) AS qty
  FROM copurchase
  GROUP BY ad_id
)
SELECT ads.ad_id AS id, ads.title, ads.body, ads.bid_micros, ads.updated_at,
       campaigns.name AS campaign, campaigns.budget_micros,
       coalesce(bought.copurchases, 0) AS copurchases,
       coalesce(bought.partners, 0) AS partners,
       coalesce(bought.qty, 0) AS qty
FROM ads
LEFT JOIN campaigns ON campaigns.campaign_id = ads.campaign_id
LEFT JOIN bought ON bought.ad_id = ads.ad_id
