// Package bench measures twolane through its public API on a real store, each row beside a floor: what the bare store does in
// the same minute with the least that a queue could ask of it. Figures of a row are divided by its n, so they can be compared.
//
// On Redis the floor is pipelined XADD in batches of 100 of the same payload; on SQLite inserts of 64 rows in one durable
// transaction. CPU of the store is what Redis reports about itself; SQLite runs in this process, so its cost is in the client's.
package bench
