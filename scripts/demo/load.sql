-- Real rows: the dictionary of the package wamerican, the code lists of the package iso-codes.
\set countries `cat /usr/share/iso-codes/json/iso_3166-1.json`
\set subdivisions `cat /usr/share/iso-codes/json/iso_3166-2.json`
\set languages `cat /usr/share/iso-codes/json/iso_639-3.json`
\set currencies `cat /usr/share/iso-codes/json/iso_4217.json`

CREATE TABLE words (word text PRIMARY KEY, seen int NOT NULL DEFAULT 0);
COMMENT ON TABLE words IS 'The dictionary of wamerican';
\copy words (word) FROM '/usr/share/dict/words'
CREATE INDEX words_reversed ON words (reverse(word) text_pattern_ops);

CREATE TABLE iso (list text, entry jsonb);
INSERT INTO iso
    SELECT 'country', jsonb_array_elements(:'countries'::jsonb -> '3166-1')
    UNION ALL SELECT 'subdivision', jsonb_array_elements(:'subdivisions'::jsonb -> '3166-2')
    UNION ALL SELECT 'language', jsonb_array_elements(:'languages'::jsonb -> '639-3')
    UNION ALL SELECT 'currency', jsonb_array_elements(:'currencies'::jsonb -> '4217');
CREATE INDEX iso_entry ON iso USING gin (entry);
CREATE INDEX iso_name ON iso ((entry ->> 'name'));
VACUUM ANALYZE;
