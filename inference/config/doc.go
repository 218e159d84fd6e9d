// Package config says what an inference processor serves and how. There are two ways to say it, and one [Config] that both end in:
//
//   - the flags, JSON files and environment variables of llm-d-async, with its defaults and deprecated names ([Upstream]). An unknown gate type, mode or gate
//     parameter is an error; any other unknown key is a warning that names it.
//   - one YAML file ([ReadFile]), in which every unknown key is an error.
//
// [Config.Complete] fills in defaults and refuses what contradicts itself, and says where.
package config
