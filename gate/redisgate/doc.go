// Package redisgate makes gates of what somebody writes into Redis: a budget under a key, or the lease of a rate.
package redisgate
