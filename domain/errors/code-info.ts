/**
 * - `temporal`: the server calls the same activity again, for as long as its options allow.
 * - `new-vm`: the VM is gone, but the stage is not at fault. Temporal gives up, since a retry of the activity would
 *   look for the lost VM again. The run machine counts the loss and asks for a VM of the next generation.
 * - `never`: the same work would fail again in the same way.
 */
export type Retry = 'temporal' | 'new-vm' | 'never';

/**
 * The properties of a code.
 *
 * - `author`: a diagnostic of a spec; the author changes the spec.
 * - `outcome`: a stage ended in a way that the plan foresees; the run machine decides about the consequences.
 * - `world`: something outside broke.
 * - `command`: a command of the command line could not do what was typed.
 * - `request`: the HTTP API could not do what was requested.
 * - `delivery`: the event of a trigger started no run.
 * - `notification`: a notification was not sent.
 *
 * `retry` is the only place that sets which program tries again.
 */
export interface ErrorCodeInfo {
  readonly kind: 'author' | 'outcome' | 'world' | 'command' | 'request' | 'delivery' | 'notification';
  readonly retry: Retry;
  readonly summary: string;
  readonly remedy: string;
}

/**
 * Attempts that a stage gets after a lost VM, a lost host or a failed boot. They do not count against the author's
 * `retry`.
 */
export const LOST_VM_ATTEMPTS = 3;
