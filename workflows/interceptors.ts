/**
 * Renames reserved names before the SDK sees them. If a default handler is set, the SDK fails the workflow task of a
 * signal or update with its reserved prefix, and retries it for ever. Any client of the server could stop a run with
 * such a name.
 */
import type { WorkflowInternalsInterceptor, WorkflowInterceptorsFactory } from '@temporalio/workflow';

const RESERVED_PREFIX = '__temporal_';

/** A bundle that another project built may lack the interceptor. A global shows that it is installed. */
const INSTALLED = Symbol.for('voidbox.renames-reserved-names');

/** True if the SDK sees no reserved name, so that a default handler is safe. */
export function renamesReservedNames(): boolean {
  return isInstalled();
}

function isInstalled(): boolean {
  return (globalThis as { [INSTALLED]?: boolean })[INSTALLED] === true;
}

/**
 * True if the bundle is of a Worker of Voidbox, or of a Worker with its plugin: both carry out local activities of
 * runs.
 */
export function hasLocalActivities(): boolean {
  return isInstalled();
}

export const interceptors: WorkflowInterceptorsFactory = () => {
  Object.defineProperty(globalThis, INSTALLED, { value: true, configurable: true });
  return { internals: [{ activate: renameReserved }] };
};

const renameReserved: NonNullable<WorkflowInternalsInterceptor['activate']> = (input, next) => {
  for (const { signalWorkflow: signal, doUpdate: update } of input.activation.jobs ?? []) {
    if (signal?.signalName?.startsWith(RESERVED_PREFIX) === true)
      signal.signalName = replaceReservedName(signal.signalName);
    if (update?.name?.startsWith(RESERVED_PREFIX) === true) update.name = replaceReservedName(update.name);
  }
  return next(input);
};

/** Workflows of Voidbox handle no reserved name, so a different name without a handler has the same effect. */
function replaceReservedName(name: string): string {
  return `(${name})`;
}
