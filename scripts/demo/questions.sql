-- One line per question, "question|answer", the same in both clusters, before and after the crash.
SELECT 'words', count(*)::text FROM words
UNION ALL
SELECT 'words that end in -ology (index on reversed words)', count(*)::text FROM words WHERE reverse(word) LIKE 'ygolo%'
UNION ALL
SELECT 'entries in four ISO lists', count(*)::text FROM iso
UNION ALL
SELECT 'words that name a language', count(DISTINCT word)::text FROM words JOIN iso ON entry ->> 'name' = word WHERE list = 'language'
UNION ALL
SELECT 'countries with more than 50 subdivisions', count(*)::text FROM (
    SELECT 1 FROM iso c JOIN iso s ON split_part(s.entry ->> 'code', '-', 1) = c.entry ->> 'alpha_2'
    WHERE c.list = 'country' AND s.list = 'subdivision' GROUP BY c.entry HAVING count(*) > 50) many
UNION ALL
SELECT 'Liechtenstein''s communes (GIN index)', count(*)::text FROM iso WHERE entry @> '{"type": "Commune"}' AND entry ->> 'code' LIKE 'LI-%'
UNION ALL
SELECT 'accounts of pgbench', count(*)::text FROM pgbench_accounts
UNION ALL
SELECT 'first digits of an MD5 of all words in order', left(md5(string_agg(word, ',' ORDER BY word COLLATE "C")), 8) FROM words
ORDER BY 1;
