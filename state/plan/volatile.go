package plan

import "strings"

// unrepeatable says why a function may not be in a materialized view: it does
// not give the same for the same record each time, looks beyond the record, or
// is not a function of one row. The list is that of DuckDB's functions that are
// not CONSISTENT (a test compares), and of those that say so wrongly.
func unrepeatable(name string, args int) (reason, nearest string) {
	name = strings.ToLower(name)
	in := func(names string) bool {
		for n := range strings.FieldsSeq(names) {
			if n == name {
				return true
			}
		}
		return false
	}
	switch {
	case in("now today current_date current_time current_timestamp current_localtime current_localtimestamp localtime localtimestamp " +
		"get_current_date get_current_time get_current_timestamp transaction_timestamp ago"), name == "age" && args == 1:
		return name + " depends on when it runs, and records are evaluated only once", "use kafka_timestamp, or compare with " + name + " in a CREATE VIEW over this view"
	case in("random setseed gen_random_uuid uuid uuidv4 uuidv7 nextval currval"):
		return name + " gives another value each time, so the view could not be verified", "use a column of the record, for example kafka_offset"
	case in("current_connection_id current_database current_catalog current_query current_query_id current_schema current_schemas " +
		"current_transaction_id txid_current in_search_path current_setting getvariable getenv current_user current_role session_user user " +
		"get_block_size version"):
		return name + " depends on the session, and a view has none", "write the value as a constant"
	case in("unnest unlist generate_subscripts regexp_split_to_table"):
		return name + " turns one record into several, which is not supported yet", "use list functions, for example list_sum(...) or list_filter(...)"
	case in("alias vector_type stats sleep_ms write_log"):
		return name + " does not compute a value from a record", "leave it out"
	}
	return "", ""
}

// lambdaTaker says whether x -> ... as an argument of the function is a lambda;
// elsewhere the arrow extracts from JSON.
func lambdaTaker(name string) bool {
	switch strings.ToLower(name) {
	case "list_transform", "array_transform", "list_apply", "array_apply", "apply",
		"list_filter", "array_filter", "filter", "list_reduce", "array_reduce", "reduce":
		return true
	}
	return false
}
