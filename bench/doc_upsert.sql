WITH sig AS (SELECT ad_id, count(*) AS copurchases, count(DISTINCT other_id) AS partners, sum(qty) AS qty FROM copurchase GROUP BY ad_id)
SELECT ads.ad_id AS id, ads.title, ads.body, ads.bid_micros, campaigns.name AS campaign, campaigns.budget_micros, coalesce(sig.copurchases, 0) AS copurchases, coalesce(sig.partners, 0) AS partners, coalesce(sig.qty, 0) AS qty
FROM ads LEFT JOIN campaigns ON ads.campaign_id = campaigns.campaign_id LEFT JOIN sig ON ads.ad_id = sig.ad_id
