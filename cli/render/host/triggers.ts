/** Deployments that keep the embedded stack up, for people. */
import type { EnabledTriggers } from '../../../client/embedded/trigger-mark.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';

const NAMED = 3;

/** The line of `up` and `ps`; none without such deployments. Null: their file cannot be read. */
export function renderTriggers(triggers: EnabledTriggers | null): readonly string[] {
  if (triggers === null) return ['deployments not known until the service has started: the stack stays up'];
  if (triggers.count === 0) return triggers.hasOpen ? ['deliveries  wait for their runs: the stack stays up'] : [];
  return [`deployments ${describe(triggers)} the stack up`];
}

/** The warning of `down`; none without such deployments. */
export function renderStoppedTriggers(triggers: EnabledTriggers | null): readonly string[] {
  if (triggers === null || triggers.count === 0) return [];
  const { count, names } = triggers;
  const what =
    count === 1 ? `the deployment ${list(names, count)} starts` : `${count} deployments (${list(names, count)}) start`;
  return [`warning: ${what} no run while the stack is down`, 'Start the stack, so that events start runs: voidbox up'];
}

function describe({ count, names }: EnabledTriggers): string {
  return count === 1 ? `${list(names, count)} keeps` : `${list(names, count)} keep`;
}

function list(names: readonly string[], count: number): string {
  const shown = names.slice(0, NAMED).map((name) => sanitizeLine(name));
  const more = count - shown.length;
  return `${shown.join(', ')}${more === 0 ? '' : ` and ${more} more`}`;
}
