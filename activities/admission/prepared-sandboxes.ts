/** Finds the prepared sandboxes of a plan on the host that admits the run. */
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { Plan, SandboxPlan } from '../../domain/plan/plan.ts';
import type { PreparedSandboxes } from '../ports/prepared-sandboxes.ts';
import { describeConfined, isConfined, type Starter } from '../ports/starters.ts';

/** The prepared sandbox that a plan names. Plans of builds that could not start from one have it in `needs`. */
export function namePreparedSandbox({ prepared, needs }: Pick<SandboxPlan, 'prepared' | 'needs'>): string | null {
  return prepared ?? needs?.snapshot ?? null;
}

/** Returns the sandboxes that a run may start from. They hold files of the owner, so a run of a token or of a deployment gets no such sandbox. */
export function selectPrepared(known: PreparedSandboxes | undefined, starter: Starter): PreparedSandboxes | undefined {
  return isConfined(starter) ? refuseAll(starter) : known;
}

function refuseAll(starter: Starter): PreparedSandboxes {
  const problem = `a run of ${describeConfined(starter)} does not start from a sandbox of the owner`;
  return { find: () => Promise.resolve({ problem }) };
}

/**
 * Returns the folder of each prepared sandbox, by its text in the plan. The run keeps to these folders, also if the
 * name passes to another prepared sandbox later.
 * @throws CodedError `admit/snapshot-unknown`
 */
export async function resolvePreparedSandboxes(
  plan: Pick<Plan, 'scopes'>,
  known: PreparedSandboxes | undefined,
): Promise<Readonly<Record<string, string>>> {
  const folders = new Map<string, string>();
  for (const { id, sandbox } of plan.scopes) {
    // A simulated VM has no disk.
    const text = sandbox.mode === 'mock' ? null : namePreparedSandbox(sandbox);
    if (text === null || folders.has(text)) continue;
    const found = known === undefined ? { problem: 'this worker has no prepared sandboxes' } : await known.find(text);
    if ('problem' in found)
      throw new CodedError(
        'admit/snapshot-unknown',
        `the VM of ${id} cannot start from its \`snapshot\`: ${found.problem}`,
      );
    folders.set(text, found.dir);
  }
  return Object.fromEntries(folders);
}
