// DuckDB's words: what the highlighter marks and the completion offers. Not the parser's whole list, but the words that
// make sense here.

export const keywords = `
select from where group by having order limit offset distinct all as on using join left right full inner outer cross
natural lateral asof positional semi anti union intersect except with recursive materialized values case when then else
end and or not in is null like ilike similar between exists any some true false asc desc nulls first last filter over
partition rows range groups preceding following unbounded current row exclude window qualify sample tablesample pivot
unpivot cast try_cast interval collate escape array struct map create or replace view source drop if table show views
sources checkpoints describe summarize explain analyze verify checkpoint savepoint at version timestamp for columns
rename default primary key
`.trim().split(/\s+/)

export const types = `
bigint blob bool boolean date decimal double float hugeint int integer interval json numeric real smallint text time
timestamp timestamptz timestamp_s timestamp_ms timestamp_ns tinyint ubigint uhugeint uinteger usmallint utinyint uuid
varchar
`.trim().split(/\s+/)

// phrases are what the first word of a statement can be.
export const phrases = [
  'SELECT', 'FROM', 'WITH', 'CREATE SOURCE', 'CREATE MATERIALIZED VIEW', 'CREATE VIEW', 'CREATE SAVEPOINT', 'DROP SAVEPOINT', 'DROP VIEW',
  'DROP MATERIALIZED VIEW', 'DROP SOURCE', 'SHOW SOURCES', 'SHOW VIEWS', 'SHOW CHECKPOINTS', 'SHOW SAVEPOINTS', 'DESCRIBE', 'SUMMARIZE',
  'EXPLAIN', 'EXPLAIN CREATE MATERIALIZED VIEW', 'VERIFY VIEW', 'CHECKPOINT',
]

// clauses are offered inside a statement.
export const clauses = [
  'SELECT', 'DISTINCT', 'FROM', 'WHERE', 'GROUP BY', 'GROUP BY ALL', 'HAVING', 'ORDER BY', 'LIMIT', 'OFFSET', 'JOIN',
  'LEFT JOIN', 'FULL JOIN', 'CROSS JOIN', 'ON', 'USING', 'UNION ALL', 'UNION', 'EXCEPT', 'INTERSECT', 'AS', 'AND', 'OR',
  'NOT', 'IN', 'IS NULL', 'IS NOT NULL', 'LIKE', 'ILIKE', 'BETWEEN', 'EXISTS', 'CASE', 'WHEN', 'THEN', 'ELSE', 'END',
  'ASC', 'DESC', 'NULLS LAST', 'NULLS FIRST', 'FILTER (WHERE', 'OVER', 'PARTITION BY', 'QUALIFY', 'WITH', 'VALUES',
  'INTERVAL', 'CAST(', 'TRY_CAST(', 'NULL', 'TRUE', 'FALSE', 'AT (VERSION =>', 'AT (TIMESTAMP =>', 'EXCLUDE', 'REPLACE',
]

// aggregates can stand in a materialized view; each line is a signature and what it answers.
const aggregateLines = `
count(*)|number of rows
count(x)|number of values that are not NULL
count_if(condition)|number of rows where it holds
sum(x)|total; exact for integers and decimals
avg(x)|mean
min(x)|smallest value
max(x)|largest value
bool_and(x)|true when all are
bool_or(x)|true when one is
approx_count_distinct(x)|distinct values, about
approx_quantile(x, q)|quantile, about
arg_max(x, by)|x where `+'`by`'+` is largest
arg_min(x, by)|x where `+'`by`'+` is smallest
stddev_samp(x)|standard deviation of the sample
var_samp(x)|variance of the sample
median(x)|middle value
quantile_cont(x, q)|interpolated quantile
string_agg(x, separator)|texts joined
list(x)|values as a list
first(x)|first value
last(x)|last value
mode(x)|most frequent value
histogram(x)|value to count, as a map
any_value(x)|some value that is not NULL
`

const scalarLines = `
abs(x)|absolute value
ceil(x)|rounded up
floor(x)|rounded down
round(x, digits)|rounded
sqrt(x)|square root
ln(x)|natural logarithm
log10(x)|logarithm to base 10
exp(x)|e to the power of x
pow(x, y)|x to the power of y
greatest(a, b)|largest argument
least(a, b)|smallest argument
coalesce(a, b)|first argument that is not NULL
nullif(a, b)|NULL when a = b
ifnull(a, b)|b when a is NULL
if(condition, a, b)|a when it holds, else b
lower(s)|lower case
upper(s)|upper case
length(s)|number of characters
trim(s)|without spaces at both ends
replace(s, from, to)|every occurrence replaced
substring(s, start, length)|part of a text
split_part(s, separator, n)|n-th part
string_split(s, separator)|parts as a list
concat(a, b)|texts joined, NULL skipped
concat_ws(separator, a, b)|texts joined with a separator
contains(s, part)|whether it is in there
starts_with(s, prefix)|whether it begins so
ends_with(s, suffix)|whether it ends so
regexp_matches(s, pattern)|whether the pattern is found
regexp_extract(s, pattern, group)|what the pattern finds
regexp_replace(s, pattern, to)|what the pattern finds, replaced
format(format, a)|text by a format with {}
printf(format, a)|text by a format with %
lpad(s, length, fill)|padded on the left
rpad(s, length, fill)|padded on the right
reverse(s)|back to front
md5(s)|MD5 as hexadecimal text
hash(x)|64-bit hash
date_trunc(part, t)|start of the hour, day, …
date_part(part, t)|one field of a time
date_diff(part, a, b)|boundaries between two times
date_add(t, interval)|later time
time_bucket(width, t)|start of the bucket
extract(part FROM t)|one field of a time
strftime(t, format)|time as text
strptime(s, format)|text as time
epoch(t)|seconds since 1970
epoch_ms(t)|milliseconds since 1970
to_timestamp(seconds)|time from seconds since 1970
now()|present time
today()|present date
year(t)|year
month(t)|month
day(t)|day of the month
hour(t)|hour
dayofweek(t)|day of the week, Sunday = 0
json_extract(j, path)|part of a document
json_extract_string(j, path)|part of a document as text
json_keys(j)|names of an object
json_array_length(j)|length of an array
list_contains(l, x)|whether it is in the list
list_sum(l)|sum of a list
list_sort(l)|list in order
list_distinct(l)|list without repeats
list_transform(l, x -> y)|list of results
list_filter(l, x -> condition)|list of those that match
len(l)|length of a list or text
unnest(l)|one row per element
range(start, stop, step)|list of numbers
generate_series(start, stop, step)|list of numbers, end included
map_extract(m, key)|values under a key
map_keys(m)|keys
struct_extract(s, name)|one field
decode(b)|bytes as text
encode(s)|text as bytes
base64(b)|bytes as base64
hex(x)|hexadecimal text
typeof(x)|name of the type
row_number() OVER ()|number of the row
rank() OVER ()|rank with gaps
lag(x) OVER ()|value of the row before
lead(x) OVER ()|value of the row after
ntile(n) OVER ()|bucket number
`

export interface Func { name: string; signature: string; about: string; aggregate: boolean }

const read = (lines: string, aggregate: boolean): Func[] =>
  lines.trim().split('\n').map((line) => {
    const [signature, about] = line.split('|') as [string, string]
    return { name: signature.slice(0, signature.indexOf('(')), signature, about, aggregate }
  })

export const functions: readonly Func[] = [...read(aggregateLines, true), ...read(scalarLines, false)]

// tableFunctions are Weir's own, for FROM.
export const tableFunctions: readonly Func[] = [
  { name: 'state_at', signature: "state_at('view', name := 'savepoint')", about: 'a view as a savepoint has it', aggregate: false },
  { name: 'state_diff', signature: "state_diff('view', from, to)", about: "what changed between two checkpoints, savepoints or 'live'", aggregate: false },
  { name: 'state_history', signature: "state_history('view', key, …)", about: 'one group in every checkpoint', aggregate: false },
]
