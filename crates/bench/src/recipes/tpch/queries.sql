-- TPC-H's 22 queries, with the parameters of its validation run. Dates are computed beforehand.
-- Rows that the specification leaves in any order are ordered by a key.
--
-- The proxy refuses literals within the argument of an aggregate, and the field of extract. So the
-- first are in a subquery, and the year of a date is a function. PostgreSQL plans both as if they
-- were written in place.

-- Q1: price summary
SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), sum(price), sum(charge),
    avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*)
FROM (SELECT l_returnflag, l_linestatus, l_quantity, l_extendedprice, l_discount,
        l_extendedprice * (1 - l_discount) AS price,
        l_extendedprice * (1 - l_discount) * (1 + l_tax) AS charge
    FROM lineitem WHERE l_shipdate <= '1998-09-02') items
GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus;

-- Q2: cheapest supplier
SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
FROM part JOIN partsupp ON ps_partkey = p_partkey JOIN supplier ON s_suppkey = ps_suppkey
    JOIN nation ON n_nationkey = s_nationkey JOIN region ON r_regionkey = n_regionkey
WHERE p_size = 15 AND p_type LIKE '%BRASS' AND r_name = 'EUROPE'
    AND ps_supplycost = (SELECT min(ps_supplycost)
        FROM partsupp JOIN supplier ON s_suppkey = ps_suppkey
            JOIN nation ON n_nationkey = s_nationkey JOIN region ON r_regionkey = n_regionkey
        WHERE ps_partkey = p_partkey AND r_name = 'EUROPE')
ORDER BY s_acctbal DESC, n_name, s_name, p_partkey LIMIT 100;

-- Q3: orders not yet shipped
SELECT l_orderkey, sum(price) AS revenue, o_orderdate, o_shippriority
FROM (SELECT l_orderkey, l_extendedprice * (1 - l_discount) AS price, o_orderdate, o_shippriority
    FROM customer JOIN orders ON o_custkey = c_custkey JOIN lineitem ON l_orderkey = o_orderkey
    WHERE c_mktsegment = 'BUILDING' AND o_orderdate < '1995-03-15'
        AND l_shipdate > '1995-03-15') items
GROUP BY l_orderkey, o_orderdate, o_shippriority
ORDER BY revenue DESC, o_orderdate, l_orderkey LIMIT 10;

-- Q4: late orders by priority
SELECT o_orderpriority, count(*) FROM orders
WHERE o_orderdate >= '1993-07-01' AND o_orderdate < '1993-10-01' AND EXISTS (
    SELECT FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
GROUP BY o_orderpriority ORDER BY o_orderpriority;

-- Q5: revenue within a nation
SELECT n_name, sum(price) AS revenue
FROM (SELECT n_name, l_extendedprice * (1 - l_discount) AS price
    FROM customer JOIN orders ON o_custkey = c_custkey JOIN lineitem ON l_orderkey = o_orderkey
        JOIN supplier ON s_suppkey = l_suppkey AND s_nationkey = c_nationkey
        JOIN nation ON n_nationkey = s_nationkey JOIN region ON r_regionkey = n_regionkey
    WHERE r_name = 'ASIA' AND o_orderdate >= '1994-01-01' AND o_orderdate < '1995-01-01') items
GROUP BY n_name ORDER BY revenue DESC;

-- Q6: revenue without discounts
SELECT sum(l_extendedprice * l_discount) FROM lineitem
WHERE l_shipdate >= '1994-01-01' AND l_shipdate < '1995-01-01'
    AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24;

-- Q7: trade between two nations
SELECT supplier_nation, customer_nation, year, sum(volume)
FROM (SELECT s.n_name AS supplier_nation, c.n_name AS customer_nation,
        year(l_shipdate) AS year, l_extendedprice * (1 - l_discount) AS volume
    FROM supplier JOIN lineitem ON l_suppkey = s_suppkey JOIN orders ON o_orderkey = l_orderkey
        JOIN customer ON c_custkey = o_custkey
        JOIN nation s ON s.n_nationkey = s_nationkey JOIN nation c ON c.n_nationkey = c_nationkey
    WHERE (s.n_name = 'FRANCE' AND c.n_name = 'GERMANY'
            OR s.n_name = 'GERMANY' AND c.n_name = 'FRANCE')
        AND l_shipdate BETWEEN '1995-01-01' AND '1996-12-31') shipping
GROUP BY supplier_nation, customer_nation, year ORDER BY supplier_nation, customer_nation, year;

-- Q8: share of a market
SELECT year, sum(national) / sum(volume)
FROM (SELECT year(o_orderdate) AS year, l_extendedprice * (1 - l_discount) AS volume,
        CASE WHEN s.n_name = 'BRAZIL' THEN l_extendedprice * (1 - l_discount) ELSE 0 END AS national
    FROM part JOIN lineitem ON l_partkey = p_partkey JOIN supplier ON s_suppkey = l_suppkey
        JOIN orders ON o_orderkey = l_orderkey JOIN customer ON c_custkey = o_custkey
        JOIN nation c ON c.n_nationkey = c_nationkey JOIN region ON r_regionkey = c.n_regionkey
        JOIN nation s ON s.n_nationkey = s_nationkey
    WHERE r_name = 'AMERICA' AND o_orderdate BETWEEN '1995-01-01' AND '1996-12-31'
        AND p_type = 'ECONOMY ANODIZED STEEL') all_nations
GROUP BY year ORDER BY year;

-- Q9: profit of a kind of part
SELECT nation, year, sum(profit)
FROM (SELECT n_name AS nation, year(o_orderdate) AS year,
        l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity AS profit
    FROM part JOIN lineitem ON l_partkey = p_partkey JOIN supplier ON s_suppkey = l_suppkey
        JOIN partsupp ON ps_suppkey = l_suppkey AND ps_partkey = l_partkey
        JOIN orders ON o_orderkey = l_orderkey JOIN nation ON n_nationkey = s_nationkey
    WHERE p_name LIKE '%green%') profits
GROUP BY nation, year ORDER BY nation, year DESC;

-- Q10: returned items
SELECT c_custkey, c_name, sum(price) AS revenue, c_acctbal, n_name, c_address, c_phone, c_comment
FROM (SELECT c_custkey, c_name, l_extendedprice * (1 - l_discount) AS price, c_acctbal, n_name,
        c_address, c_phone, c_comment
    FROM customer JOIN orders ON o_custkey = c_custkey JOIN lineitem ON l_orderkey = o_orderkey
        JOIN nation ON n_nationkey = c_nationkey
    WHERE o_orderdate >= '1993-10-01' AND o_orderdate < '1994-01-01'
        AND l_returnflag = 'R') items
GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
ORDER BY revenue DESC, c_custkey LIMIT 20;

-- Q11: stock of value
SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS value
FROM partsupp JOIN supplier ON s_suppkey = ps_suppkey JOIN nation ON n_nationkey = s_nationkey
WHERE n_name = 'GERMANY'
GROUP BY ps_partkey
HAVING sum(ps_supplycost * ps_availqty) > (
    SELECT sum(ps_supplycost * ps_availqty) * {fraction}
    FROM partsupp JOIN supplier ON s_suppkey = ps_suppkey
        JOIN nation ON n_nationkey = s_nationkey
    WHERE n_name = 'GERMANY')
ORDER BY value DESC, ps_partkey;

-- Q12: shipping modes and priority
SELECT l_shipmode,
    sum(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0 END),
    sum(CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH' THEN 1 ELSE 0 END)
FROM orders JOIN lineitem ON l_orderkey = o_orderkey
WHERE l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate
    AND l_shipdate < l_commitdate AND l_receiptdate >= '1994-01-01'
    AND l_receiptdate < '1995-01-01'
GROUP BY l_shipmode ORDER BY l_shipmode;

-- Q13: customers by number of orders
SELECT orders, count(*) AS customers
FROM (SELECT c_custkey, count(o_orderkey) AS orders
    FROM customer LEFT JOIN orders
        ON o_custkey = c_custkey AND o_comment NOT LIKE '%special%requests%'
    GROUP BY c_custkey) of_customer
GROUP BY orders ORDER BY customers DESC, orders DESC;

-- Q14: effect of a promotion
SELECT 100.00 * sum(promoted) / sum(price)
FROM (SELECT l_extendedprice * (1 - l_discount) AS price,
        CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END
            AS promoted
    FROM lineitem JOIN part ON p_partkey = l_partkey
    WHERE l_shipdate >= '1995-09-01' AND l_shipdate < '1995-10-01') items;

-- Q15: best supplier
WITH revenue AS (SELECT l_suppkey, sum(price) AS total
    FROM (SELECT l_suppkey, l_extendedprice * (1 - l_discount) AS price FROM lineitem
        WHERE l_shipdate >= '1996-01-01' AND l_shipdate < '1996-04-01') items
    GROUP BY l_suppkey)
SELECT s_suppkey, s_name, s_address, s_phone, total
FROM supplier JOIN revenue ON l_suppkey = s_suppkey
WHERE total = (SELECT max(total) FROM revenue) ORDER BY s_suppkey;

-- Q16: suppliers of parts
SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) AS suppliers
FROM partsupp JOIN part ON p_partkey = ps_partkey
WHERE p_brand <> 'Brand#45' AND p_type NOT LIKE 'MEDIUM POLISHED%'
    AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9)
    AND ps_suppkey NOT IN (
        SELECT s_suppkey FROM supplier WHERE s_comment LIKE '%Customer%Complaints%')
GROUP BY p_brand, p_type, p_size ORDER BY suppliers DESC, p_brand, p_type, p_size;

-- Q17: revenue of small orders
SELECT sum(l_extendedprice) / 7.0 FROM lineitem JOIN part ON p_partkey = l_partkey
WHERE p_brand = 'Brand#23' AND p_container = 'MED BOX'
    AND l_quantity < (SELECT 0.2 * avg(l_quantity) FROM lineitem WHERE l_partkey = p_partkey);

-- Q18: customers with large orders
SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity)
FROM customer JOIN orders ON o_custkey = c_custkey JOIN lineitem ON l_orderkey = o_orderkey
WHERE o_orderkey IN (
    SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 300)
GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
ORDER BY o_totalprice DESC, o_orderdate, o_orderkey LIMIT 100;

-- Q19: discounted revenue
SELECT sum(price)
FROM (SELECT l_extendedprice * (1 - l_discount) AS price
    FROM lineitem JOIN part ON p_partkey = l_partkey
    WHERE (p_brand = 'Brand#12' AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
            AND l_quantity >= 1 AND l_quantity <= 11 AND p_size BETWEEN 1 AND 5
            AND l_shipmode IN ('AIR', 'REG AIR') AND l_shipinstruct = 'DELIVER IN PERSON')
        OR (p_brand = 'Brand#23' AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
            AND l_quantity >= 10 AND l_quantity <= 20 AND p_size BETWEEN 1 AND 10
            AND l_shipmode IN ('AIR', 'REG AIR') AND l_shipinstruct = 'DELIVER IN PERSON')
        OR (p_brand = 'Brand#34' AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')
            AND l_quantity >= 20 AND l_quantity <= 30 AND p_size BETWEEN 1 AND 15
            AND l_shipmode IN ('AIR', 'REG AIR') AND l_shipinstruct = 'DELIVER IN PERSON')) items;

-- Q20: suppliers with more than they need
SELECT s_name, s_address FROM supplier JOIN nation ON n_nationkey = s_nationkey
WHERE n_name = 'CANADA' AND s_suppkey IN (
    SELECT ps_suppkey FROM partsupp
    WHERE ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE 'forest%')
        AND ps_availqty > (SELECT 0.5 * sum(l_quantity) FROM lineitem
            WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey
                AND l_shipdate >= '1994-01-01' AND l_shipdate < '1995-01-01'))
ORDER BY s_name;

-- Q21: suppliers who kept orders waiting
SELECT s_name, count(*) AS waiting
FROM supplier JOIN lineitem one ON one.l_suppkey = s_suppkey
    JOIN orders ON o_orderkey = one.l_orderkey JOIN nation ON n_nationkey = s_nationkey
WHERE o_orderstatus = 'F' AND one.l_receiptdate > one.l_commitdate
    AND EXISTS (SELECT FROM lineitem other
        WHERE other.l_orderkey = one.l_orderkey AND other.l_suppkey <> one.l_suppkey)
    AND NOT EXISTS (SELECT FROM lineitem other
        WHERE other.l_orderkey = one.l_orderkey AND other.l_suppkey <> one.l_suppkey
            AND other.l_receiptdate > other.l_commitdate)
    AND n_name = 'SAUDI ARABIA'
GROUP BY s_name ORDER BY waiting DESC, s_name LIMIT 100;

-- Q22: customers without orders
SELECT code, count(*), sum(c_acctbal)
FROM (SELECT substring(c_phone FROM 1 FOR 2) AS code, c_acctbal FROM customer
    WHERE substring(c_phone FROM 1 FOR 2) IN ('13', '31', '23', '29', '30', '18', '17')
        AND c_acctbal > (SELECT avg(c_acctbal) FROM customer WHERE c_acctbal > 0.00
            AND substring(c_phone FROM 1 FOR 2) IN ('13', '31', '23', '29', '30', '18', '17'))
        AND NOT EXISTS (SELECT FROM orders WHERE o_custkey = c_custkey)) without
GROUP BY code ORDER BY code;
