-- The shop: two topics, what is worth keeping of them, and views over that.
-- One event in a thousand is broken on purpose: see the sources' quarantine.

CREATE SOURCE orders (
  order_id  BIGINT,
  customer  STRUCT(id BIGINT, name VARCHAR, country VARCHAR, tier VARCHAR),
  items     STRUCT(sku VARCHAR, qty INTEGER, price DECIMAL(10,2))[],
  city      VARCHAR,
  amount    DECIMAL(12,2),
  currency  VARCHAR,
  status    VARCHAR,
  placed_at TIMESTAMP
) WITH (connector = 'kafka', topic = 'orders', format = 'json', start = 'earliest', on_error = 'quarantine');

CREATE SOURCE page_views (
  path      VARCHAR,
  session   VARCHAR,
  user_id   BIGINT,
  country   VARCHAR,
  device    VARCHAR,
  ms        INTEGER,
  viewed_at TIMESTAMP
) WITH (connector = 'kafka', topic = 'page_views', format = 'json', start = 'earliest', on_error = 'quarantine');

-- The whole shop in one row.
CREATE MATERIALIZED VIEW shop_totals AS
SELECT count(*) AS orders,
       sum(amount) AS revenue,
       avg(amount) AS avg_order,
       sum(len(items)) AS lines,
       bool_and(amount > 0) AS all_positive,
       max(placed_at) AS last_order
FROM orders
WHERE status <> 'cancelled';

CREATE MATERIALIZED VIEW revenue_by_city AS
SELECT city,
       count(*) AS orders,
       sum(amount) AS revenue,
       avg(amount) AS avg_order,
       count_if(amount >= 200) AS large_orders,
       max(placed_at) AS last_order
FROM orders
WHERE status <> 'cancelled'
GROUP BY city;

CREATE MATERIALIZED VIEW orders_per_minute AS
SELECT date_trunc('minute', placed_at) AS minute,
       count(*) AS orders,
       count(*) FILTER (WHERE status = 'cancelled') AS cancelled,
       sum(amount) FILTER (WHERE status <> 'cancelled') AS revenue
FROM orders
GROUP BY date_trunc('minute', placed_at);

CREATE MATERIALIZED VIEW orders_by_country AS
SELECT customer.country AS country,
       customer.tier AS tier,
       count(*) AS orders,
       sum(amount) AS revenue,
       min(amount) AS smallest,
       max(amount) AS largest,
       bool_or(amount > 1000) AS any_above_1000
FROM orders
GROUP BY customer.country, customer.tier;

-- Customers who came back.
CREATE MATERIALIZED VIEW regulars AS
SELECT customer.id AS customer_id,
       customer.name AS name,
       count(*) AS orders,
       sum(amount) AS spent,
       round(sum(amount) / count(*), 2) AS per_order,
       min(placed_at) AS first_order,
       max(placed_at) AS last_order
FROM orders
WHERE status <> 'cancelled'
GROUP BY customer.id, customer.name
HAVING count(*) >= 3;

CREATE MATERIALIZED VIEW traffic AS
SELECT time_bucket(INTERVAL '5 minutes', viewed_at) AS bucket,
       device,
       count(*) AS views,
       count(user_id) AS signed_in,
       avg(ms) AS avg_ms,
       max(ms) AS slowest
FROM page_views
GROUP BY time_bucket(INTERVAL '5 minutes', viewed_at), device;

CREATE MATERIALIZED VIEW pages AS
SELECT path,
       count(*) AS views,
       avg(ms) AS avg_ms,
       count_if(ms > 500) AS slow,
       max(viewed_at) AS last_view
FROM page_views
GROUP BY path;

CREATE MATERIALIZED VIEW views_by_country AS
SELECT country, count(*) AS views, count(user_id) AS signed_in
FROM page_views
GROUP BY country;

CREATE VIEW top_cities AS
SELECT city, orders, revenue, round(avg_order, 2) AS avg_order
FROM revenue_by_city
ORDER BY revenue DESC
LIMIT 10;

CREATE VIEW conversion AS
SELECT v.country,
       v.views,
       o.orders,
       round(100.0 * o.orders / v.views, 1) AS orders_per_100_views,
       o.revenue
FROM views_by_country AS v
JOIN (SELECT country, sum(orders) AS orders, sum(revenue) AS revenue FROM orders_by_country GROUP BY country) AS o
  ON o.country = v.country
ORDER BY o.revenue DESC;

CREATE VIEW slow_pages AS
SELECT path, views, round(avg_ms) AS avg_ms, round(100.0 * slow / views, 1) AS slow_percent
FROM pages
WHERE views >= 100
ORDER BY slow_percent DESC
LIMIT 20;
