// Package wire has the formats that llm-d-async's producers and consumers speak over Redis, byte for byte: the members of the request sets, the
// records of the result lists, and the names of the keys beside them.
//
// It is pure: it parses and prints. What encoding/json does on their side it does here: names match in any case, unknown fields are skipped, and
// strings are escaped for HTML.
package wire
