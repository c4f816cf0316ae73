/**
 * What the workflow of a run does, as a number that admission fixes for the run's whole life: replay of a recorded history
 * must give the commands that stand in it. Whatever changes commands asks for this number.
 *
 * - 0: whole stages and scopes travel to activities, which believe only the ids in them.
 * - 1: ids travel; a run whose history comes near the server's limits ends itself.
 * - 2: the workflow holds what the run machine needs of the plan, and not the plan; all calls of a run are cancelled by one
 *   scope, and the run hears of a call's end as soon as it has ended.
 */
export const BEHAVIOUR = 2;
