-- encdb_btree: nothing of its own. encdb asks about a page of an ordered index by one request; statements that were
-- published for encrypted columns make this extension for that.

\echo Use "CREATE EXTENSION encdb_btree" to load this file. \quit
