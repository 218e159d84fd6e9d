// Package demo runs the main job of twolane against a simulated cloud and keeps the books that show whether every promise was kept.
//
// A fan-out of long-running tasks is submitted to a store; workers, in this process or in processes of their own, launch each on the
// cloud of package cloudsim (a rate-limited API) and check it until it has ended. The numbers come from outside of the engine
// where they can: the cloud counts calls, tasks and doubled runs, the store's records say what became of each command.
package demo
