package agg

import "strings"

// Refused says why an aggregate of DuckDB, or a macro of DuckDB's that holds
// one, is not kept by a materialized view, and what is nearest to it.
func Refused(name string) (reason, nearest string, ok bool) {
	name = strings.ToLower(name)
	for _, r := range refusals() {
		for n := range strings.FieldsSeq(r.names) {
			if n == name {
				return r.reason, r.nearest, true
			}
		}
	}
	return "", "", false
}

type refusal struct{ names, reason, nearest string }

func refusals() []refusal {
	const later = "it is not supported yet"
	const sorted = "it needs all values of a group, sorted"
	return []refusal{
		{"fsum kahan_sum sumkahan", "sums of DOUBLE are kept compensated anyway", "use sum"},
		{"sum_no_overflow", "it is internal to DuckDB", "use sum"},
		{"favg", "sums of DOUBLE are kept compensated anyway", "use avg"},
		{"median quantile quantile_cont quantile_disc mad", sorted, "approx_quantile will keep a sketch instead, but is not supported yet; min, max and avg are"},
		{"approx_quantile reservoir_quantile", later, "min, max and avg are"},
		{"mode entropy histogram histogram_exact approx_top_k", "it needs a count of every value of a group", "group by the value as well and use count(*)"},
		{"approx_count_distinct", later, "group by the value as well, and count the groups in a CREATE VIEW over this view"},
		{"stddev stddev_pop stddev_samp variance var_pop var_samp sem", later, "keep count(x), sum(x) and sum(x * x), from which it can be computed, with fewer digits"},
		{"covar_pop covar_samp corr regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness kurtosis kurtosis_pop", later, "sums of products, such as sum(x * y), are"},
		{"arg_max arg_min argmax argmin max_by min_by arg_max_null arg_min_null arg_max_nulls_last arg_min_nulls_last", later, "max({'y': y, 'x': x}) keeps an x beside the greatest y"},
		{"first first_value any_value arbitrary last last_value", later, "use min or max; max({'y': kafka_timestamp, 'x': x}) holds a newest x"},
		{"string_agg group_concat listagg list array_agg json_group_array json_group_object json_group_structure", "it grows with every record, and is not supported yet", "use count, min or max; SELECT from the source shows newest records"},
		{"bit_and bit_or bit_xor bitstring_agg", later, "bool_and and bool_or are"},
		{"product geomean geometric_mean", later, "keep sum(ln(x)), and exp(...) over it"},
		{"weighted_avg wavg", "it is a macro over aggregates", "write sum(value * weight) / sum(weight)"},
		{"row_number rank rank_dense dense_rank percent_rank cume_dist ntile lag lead nth_value fill", "it is a window function: it looks at other groups", "use CREATE VIEW over the materialized view"},
	}
}
