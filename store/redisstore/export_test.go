package redisstore

// What tests in package redisstore_test reach inside.

// Assemble is a script with what it includes.
var Assemble = assemble

// Scripts are the texts of all scripts by name.
func Scripts() map[string]string {
	m := map[string]string{}
	for _, s := range scripts {
		m[s.name] = s.text
	}
	return m
}

// KeyKinds are the kinds of keys.
func KeyKinds() []string {
	var all []string
	for _, k := range keyKinds {
		all = append(all, k.kind)
	}
	return all
}
