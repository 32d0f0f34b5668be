-- The same text as a stream and as a batch.
SELECT
  shop,
  window.start AS window_start,
  count(*) AS payments,
  sum(cents) AS cents,
  max(amount) AS largest
FROM masked
WHERE amount < 1000
GROUP BY shop, window(at, '10 seconds')
