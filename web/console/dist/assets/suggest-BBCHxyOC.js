function e(e){let t=[],n=-1,i=0,a=0;for(;a<e.length;){let s=r(e,a),l=e[a];l===`;`?(n>=0&&t.push({from:n,to:i,end:s}),n=-1):!o(l)&&!c(e,a)&&(n<0&&(n=a),i=s),a=s}return n>=0&&t.push({from:n,to:i,end:i}),t}function t(t,n){let r=e(t),i=r.findIndex(e=>n<=e.end);if(i<0)return r.at(-1);let a=r[i],o=r[i-1];return n<a.from&&o&&!t.slice(o.end,n).includes(`
`)?o:a}function n(e,t){let n=0;for(let r of e){let e=r.codePointAt(0);if(t-=e<128?1:e<2048?2:e<65536?3:4,t<0)break;n+=r.length}return n}function r(e,t){let n=e[t];if(n===`'`)return i(e,t,`'`,/[eE]/.test(e[t-1]??``)&&!s(e[t-2]??``));if(n===`"`)return i(e,t,`"`,!1);if(n===`-`&&e[t+1]===`-`){let n=e.indexOf(`
`,t);return n<0?e.length:n}if(n===`/`&&e[t+1]===`*`)return a(e,t);if(n===`$`&&!s(e[t-1]??``)){let n=/\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$/y;n.lastIndex=t;let r=n.exec(e);if(r){let n=e.indexOf(r[0],t+r[0].length);return n<0?e.length:n+r[0].length}}return t+1}function i(e,t,n,r){for(let i=t+1;i<e.length;i++)if(r&&e[i]===`\\`)i++;else if(e[i]===n){if(e[i+1]!==n)return i+1;i++}return e.length}function a(e,t){let n=0;for(let r=t;r<e.length-1;r++)if(e[r]===`/`&&e[r+1]===`*`)n++,r++;else if(e[r]===`*`&&e[r+1]===`/`&&(r++,--n===0))return r+1;return e.length}var o=e=>e===` `||e===`
`||e===`	`||e===`\r`||e===`\f`||e===`\v`,s=e=>/[\w\u0080-\uffff]/.test(e),c=(e,t)=>e[t]===`-`&&e[t+1]===`-`||e[t]===`/`&&e[t+1]===`*`,l=`select from where group by having order limit offset distinct all as on using join left right full inner outer cross
natural lateral asof positional semi anti union intersect except with recursive materialized values case when then else
end and or not in is null like ilike similar between exists any some true false asc desc nulls first last filter over
partition rows range groups preceding following unbounded current row exclude window qualify sample tablesample pivot
unpivot cast try_cast interval collate escape array struct map create or replace view source drop if table show views
sources checkpoints describe summarize explain analyze verify checkpoint savepoint at version timestamp for columns
rename default primary key`.split(/\s+/),u=`bigint blob bool boolean date decimal double float hugeint int integer interval json numeric real smallint text time
timestamp timestamptz timestamp_s timestamp_ms timestamp_ns tinyint ubigint uhugeint uinteger usmallint utinyint uuid
varchar`.split(/\s+/),d=[`SELECT`,`FROM`,`WITH`,`CREATE SOURCE`,`CREATE MATERIALIZED VIEW`,`CREATE VIEW`,`CREATE SAVEPOINT`,`DROP SAVEPOINT`,`DROP VIEW`,`DROP MATERIALIZED VIEW`,`DROP SOURCE`,`SHOW SOURCES`,`SHOW VIEWS`,`SHOW CHECKPOINTS`,`SHOW SAVEPOINTS`,`DESCRIBE`,`SUMMARIZE`,`EXPLAIN`,`EXPLAIN CREATE MATERIALIZED VIEW`,`VERIFY VIEW`,`CHECKPOINT`],f=`SELECT.DISTINCT.FROM.WHERE.GROUP BY.GROUP BY ALL.HAVING.ORDER BY.LIMIT.OFFSET.JOIN.LEFT JOIN.FULL JOIN.CROSS JOIN.ON.USING.UNION ALL.UNION.EXCEPT.INTERSECT.AS.AND.OR.NOT.IN.IS NULL.IS NOT NULL.LIKE.ILIKE.BETWEEN.EXISTS.CASE.WHEN.THEN.ELSE.END.ASC.DESC.NULLS LAST.NULLS FIRST.FILTER (WHERE.OVER.PARTITION BY.QUALIFY.WITH.VALUES.INTERVAL.CAST(.TRY_CAST(.NULL.TRUE.FALSE.AT (VERSION =>.AT (TIMESTAMP =>.EXCLUDE.REPLACE`.split(`.`),p=`
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
arg_max(x, by)|x where \`by\` is largest
arg_min(x, by)|x where \`by\` is smallest
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
`,m=`
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
`,h=(e,t)=>e.trim().split(`
`).map(e=>{let[n,r]=e.split(`|`);return{name:n.slice(0,n.indexOf(`(`)),signature:n,about:r,aggregate:t}}),g=[...h(p,!0),...h(m,!1)],_=[{name:`state_at`,signature:`state_at('view', name := 'savepoint')`,about:`a view as a savepoint has it`,aggregate:!1},{name:`state_diff`,signature:`state_diff('view', from, to)`,about:`what changed between two checkpoints, savepoints or 'live'`,aggregate:!1},{name:`state_history`,signature:`state_history('view', key, …)`,about:`one group in every checkpoint`,aggregate:!1}];function v(t,n,r){let i=n-(/[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*$/.exec(t.slice(0,n))?.[0]??``).length,a=e(t),o=a.findLast(e=>e.end>e.to&&e.end<=i)?.end??0,s=a.find(e=>e.end>o)?.to??n;if(S(t,o,i))return;let c=x(t,o,Math.max(n,s)),l=c.filter(e=>e.to<=i),u=l.at(-1),p=E(c,r);if(u?.text===`.`&&u.to===i){let e=D(l.at(-2)?.text??``),t=p.find(t=>t.alias===e.toLowerCase())?.relation??O(r,e);return t?{from:i,options:k(t,5)}:void 0}if(!u)return{from:i,options:d.map(e=>M(e,3))};if(w(l))return{from:i,options:[...r.map(e=>A(e,5)),..._.map(e=>j(e,1))]};let m=p.length>0?p.flatMap(e=>e.relation?k(e.relation,5):[]):r.flatMap(e=>k(e,2));return m.push(...g.map(e=>j(e,+!!e.aggregate))),m.push(...f.map(e=>M(e,1))),m.push(...r.map(e=>A(e,0))),{from:i,options:N(m)}}function y(e){return/^[a-z_][a-z0-9_]*$/i.test(e)&&!b.has(e.toLowerCase())?e:`"`+e.replaceAll(`"`,`""`)+`"`}var b=new Set(`all analyse analyze and any array as asc asymmetric both case cast check collate column constraint
create default deferrable desc describe distinct do else end except false fetch for foreign from group having in initially
intersect into lambda lateral leading limit not null offset on only or order pivot placing primary qualify references
returning select show some summarize symmetric table then to trailing true union unique unpivot using variadic when where
window with`.split(/\s+/));function x(e,t,n){let i=[],a=/[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*/y;for(let o=t;o<n;){a.lastIndex=o;let t=a.exec(e),n=t?o+t[0].length:r(e,o),s=e.slice(o,n);(t||s.trim()!==``&&!/^(--|\/\*|')/.test(s))&&i.push({text:s,from:o,to:n,word:!!t||s[0]===`"`}),o=n}return i}function S(e,t,n){for(let i=t;i<n;){let t=r(e,i),a=e.slice(i,t);if(t>n&&t-i>1||t===n&&a.startsWith(`--`)||t===n&&t===e.length&&/^['"]/.test(a)&&(a.length===1||!a.endsWith(a[0])))return!0;i=t}return!1}var C=new Set([`from`,`join`,`into`,`view`,`source`,`describe`,`summarize`]);function w(e){let t=e.at(-1);if(C.has(t.text.toLowerCase()))return!0;if(t.text!==`,`)return!1;for(let t=e.length-2;t>=0;t--){let n=e[t];if(n.text.toLowerCase()===`from`)return!0;if(!n.word&&n.text!==`,`&&n.text!==`.`||T.has(n.text.toLowerCase()))return!1}return!1}var T=new Set(`select where group order having limit on using join left right full inner cross natural union
except intersect qualify window offset as at set by asof semi anti positional`.split(/\s+/));function E(e,t){let n=[],r=!1;for(let i=0;i<e.length;i++){let a=e[i],o=a.text.toLowerCase();if(o===`from`||o===`join`)r=!0;else if(r&&a.word&&!T.has(o)){let o=D(a.text),s=e[i+1];s?.text.toLowerCase()===`as`&&(s=e[i+2]);let c=s?.word&&!T.has(s.text.toLowerCase()),l=O(t,o);n.push({alias:(c?D(s.text):o).toLowerCase(),...l&&{relation:l}}),r=e[i+(c?e[i+1].text.toLowerCase()===`as`?3:2:1)]?.text===`,`,r&&(i+=+!!c)}else a.text!==`,`&&(r=!1)}return n.some(e=>e.relation)?n:[]}var D=e=>e.startsWith(`"`)?e.slice(1,-1).replaceAll(`""`,`"`):e,O=(e,t)=>e.find(e=>e.name.toLowerCase()===t.toLowerCase()),k=(e,t)=>e.columns.map((n,r)=>({label:n.name,kind:`column`,detail:n.type+(n.role===`key`?` · key`:``),info:e.name,insert:y(n.name),weight:t-r/1e3})),A=(e,t)=>({label:e.name,kind:`relation`,detail:e.kind===`materialized`?`materialized view`:e.kind,info:e.columns.map(e=>e.name).join(`, `),insert:y(e.name),weight:t}),j=(e,t)=>({label:e.name,kind:`function`,detail:e.signature.slice(e.name.length),info:e.about,insert:e.signature===`count(*)`?e.signature:e.name+`(`,weight:t}),M=(e,t)=>({label:e,kind:`keyword`,detail:``,insert:e,weight:t});function N(e){let t=new Set;return e.filter(e=>{let n=e.kind+` `+e.label.toLowerCase();return!t.has(n)&&t.add(n)})}export{n as a,u as i,v as n,e as o,l as r,t as s,y as t};