/**
 * - `temporal`: the server calls the same activity again, for as long as its options allow.
 * - `new-vm`: the VM is gone, not the stage wrong. Temporal gives up, since a retry of the activity would look for
 *   the lost VM again; the run machine counts the loss and asks for one of the next generation.
 * - `never`: the same work would meet it again.
 */
export type Retry = 'temporal' | 'new-vm' | 'never';

/**
 * What a code says of itself.
 *
 * - `author`: a diagnostic of a spec; the author changes the spec.
 * - `outcome`: a stage ended in a way that the plan foresees; the run machine decides what it means.
 * - `world`: something outside broke.
 * - `command`: a command of the command line could not do what was typed.
 *
 * `retry` is the one place that says who tries again.
 */
export interface ErrorCodeInfo {
  readonly kind: 'author' | 'outcome' | 'world' | 'command';
  readonly retry: Retry;
  readonly summary: string;
  readonly remedy: string;
}

/** Attempts that a stage gets after a lost VM, a lost host or a failed boot, counted apart from the author's. */
export const LOST_VM_ATTEMPTS = 3;
