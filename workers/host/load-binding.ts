/** Lets this worker use the binding for Node, if its host has it. */
import { useBinding } from '../../native/index.ts';
import type { Environment } from '../../setup/environment.ts';
import { findHostBinding } from '../../setup/host-binding.ts';
import { type Log, textOf } from '../log.ts';

/** A worker without the binding does the same, by child processes. */
export async function loadBinding(env: Environment, log: Log): Promise<void> {
  const file = await findHostBinding(env);
  if (file === null) return;
  try {
    useBinding(file);
  } catch (error) {
    log('warning', `the binding for Node cannot be loaded, and child processes do its work: ${textOf(error)}`);
  }
}
