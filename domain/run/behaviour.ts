/**
 * The commands that the workflow of a run makes, as a number that admission fixes for the run's whole life. Replay of a recorded
 * history must make the same commands again, so a change of commands raises this number and asks for it. @see docs/adr/0012-calls-name-what-was-admitted.md
 *
 * - 2: in a scope that is saved after each step, a VM that replaces a lost one is acquired before steps run again.
 * - 3: in such a scope, results of an earlier run replace some of the stages, and the first VM begins with their work.
 * - 4: a worker checks each answer to a question, also a rejection without fields.
 */
export const BEHAVIOUR = 4;
