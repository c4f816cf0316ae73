/**
 * What the workflow of a run does, as a number that admission fixes for the run's whole life: replay of a recorded history
 * must give the commands that stand in it. Whatever changes commands asks for this number.
 *
 * - 0: whole stages and scopes travel to activities, which believe only the ids in them.
 * - 1: ids travel; a run whose history comes near the server's limits ends itself.
 * - 2: the workflow holds what the run machine needs of the plan, and not the plan; all calls of a run are cancelled by one
 *   scope, and the run hears of a call's end as soon as it has ended.
 * - 3: a stage that failed without a result of its own has an event, which is written as soon as the stage has failed.
 * - 4: a stage that failed is a failed activity, whose failure carries the result.
 * - 5: a stage may ask people, and waits for their answer.
 * - 6: pauses between attempts grow, and some failures are final.
 * - 7: failures of some stages are tolerated.
 * - 8: a run may be given what stages of an earlier run came to.
 * - 9: a stage may wait for a time.
 * - 10: a run's time may be limited.
 * - 11: a stage may start after the failure of one of several.
 * - 12: a stage may have a condition, which is decided before the stage starts.
 * - 13: a stage may be done for each item of a list, by child workflows.
 * - 14: the items of a stage are in fewer and larger windows, which are all open from the beginning.
 * - 15: stages with `finally` run after all others, also when the run is cancelled.
 * - 16: stages of a loop run again until a condition holds.
 * - 17: a part may be done for each item of a list: windows carry the machine of the part.
 * - 18: the failure of a whole part may be tolerated.
 * - 19: an item may have lists itself, whose windows are children of its window.
 * - 20: a stage in a loop may be done for each item of a list, which each visit makes anew.
 * - 21: a stage of an item may ask people, and its window takes the answer.
 * - 25: a stage may wait until a time that earlier outputs say.
 * - 26: the items of a stage are in few windows, each of which ends early when its history grows long, and another goes on.
 * - 27: a signal or an update without a handler is a notice of the run.
 * - 28: the boot of a VM is a marker in history.
 */
export const BEHAVIOUR = 28;
