-- What the database administrator runs once, after the shop's migrations and before its first row: the columns that the
-- server must not read get encrypted types. Indexes and the unique constraint are kept.
CREATE EXTENSION encdb;

ALTER TABLE shop_customer
    ALTER COLUMN name TYPE enc_text USING NULL,
    ALTER COLUMN email TYPE enc_text USING NULL,
    ALTER COLUMN phone TYPE enc_text USING NULL,
    ALTER COLUMN birthday TYPE enc_date USING NULL,
    ALTER COLUMN credit_limit TYPE enc_decimal USING NULL;

ALTER TABLE shop_order
    ALTER COLUMN item TYPE enc_text USING NULL,
    ALTER COLUMN amount TYPE enc_decimal USING NULL;
