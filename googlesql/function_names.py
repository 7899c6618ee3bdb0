"""Names of functions: BigQuery's, to suggest one for a misspelt name, and PostgreSQL's that take OVER."""

from __future__ import annotations

from typing import Final


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTION_NAMES: Final = _names(
    """abs any_value approx_count_distinct approx_quantiles array_agg array_length array_to_string avg cast ceil
    char_length coalesce concat count countif current_date current_datetime current_timestamp date date_add
    date_diff date_sub date_trunc datetime datetime_add datetime_diff datetime_sub datetime_trunc ends_with exp
    extract first_value floor format_timestamp generate_array generate_timestamp_array greatest if ifnull initcap
    json_extract json_extract_array json_extract_scalar json_query json_query_array json_value json_value_array
    lag last_value lead least left length ln log logical_and logical_or lower lpad max md5 min mod nullif
    parse_json parse_timestamp pow power rank regexp_contains regexp_extract regexp_extract_all regexp_replace
    replace reverse right round row_number safe_cast safe_divide sign split sqrt starts_with stddev string
    string_agg strpos substr sum timestamp timestamp_add timestamp_diff timestamp_micros timestamp_millis
    timestamp_seconds timestamp_sub timestamp_trunc to_hex to_json_string trim trunc unix_micros unix_millis
    unix_seconds upper variance"""
)
WINDOWED: Final = _names(
    """count sum avg min max any_value every bool_and bool_or bit_and bit_or bit_xor string_agg array_agg json_agg
    jsonb_agg json_agg_strict jsonb_agg_strict json_object_agg jsonb_object_agg json_object_agg_strict
    jsonb_object_agg_strict json_object_agg_unique jsonb_object_agg_unique range_agg range_intersect_agg stddev
    stddev_pop stddev_samp variance var_pop var_samp corr covar_pop covar_samp regr_avgx regr_avgy regr_count
    regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy percentile_cont percentile_disc mode row_number rank
    dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value"""
)
