/** Keeps the outputs of an ended run that are the inputs of other runs, until these have started. */
import { type Follower, selectOutputs } from '../../domain/delivery/run-end.ts';
import { findRunOutput } from '../../domain/sources/run-output.ts';
import type { HeldArtifacts } from '../../store/ports/held-artifacts.ts';
import type { DeliveryRow, RunEndEvent } from '../../store/triggers.ts';
import type { Machine } from '../machine.ts';

export interface HoldTools {
  readonly machine: Pick<Machine, 'stores'>;
  readonly held: Pick<HeldArtifacts, 'hold'>;
}

/**
 * Call this before the end is recorded: a prune between both may delete the run that names the outputs. An output that
 * is deleted already is left out, and the start of its run is refused.
 * @throws CodedError `store/io`
 */
export async function holdOutputs(
  { deployment }: Pick<DeliveryRow, 'deployment'>,
  { state, body }: RunEndEvent,
  followers: readonly Follower[],
  { machine, held }: HoldTools,
): Promise<void> {
  const names = selectOutputs(deployment, state, followers);
  if (names.length === 0) return;
  const { artifacts } = await machine.stores();
  const payload = Buffer.from(body).toString('utf8');
  for (const name of names) {
    const ref = findRunOutput(payload, name);
    if (typeof ref !== 'string' && (await artifacts.claim(ref))) await held.hold(ref.sha256);
  }
}
