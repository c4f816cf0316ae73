/** Finds the VM that `exec` means: a VM kept after a failed stage, else the VM of a running stage. */
import type { EnterableVm } from '../../client/vms/retained-vms.ts';
import { listRunningStages, type RunningStage } from '../../client/vms/running-vms.ts';
import { formatAttempt, parseExecKey } from '../../domain/run/attempt.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { AppError, createUsageError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import { findRetained, keeperOf, listRetainedOf, theOnly } from './retained-vms.ts';
import { quoteRunId } from '../../domain/run/run-id.ts';
import { formatRunId, quoteStageName } from './run-id.ts';

export interface Enterable {
  readonly runId: string;
  readonly vm: EnterableVm;
  /**
   * Records the entry before a command starts in the VM. Null: the VM was kept after a failure, and the log has no
   * entries for it.
   */
  readonly record: ((program: string, call: string) => Promise<void>) | null;
}

/** @throws AppError if no VM or several VMs match, or if the worker does not allow it */
export async function findEnterable(text: string, stage: string | undefined, context: Machine): Promise<Enterable> {
  const { runId, all } = await listRetainedOf('exec', text, context);
  const running = await listRunningStages(context.env.stateDir, runId, keeperOf(context));
  const isRetained = all.some((vm) => stage === undefined || vm.label === stage);
  const chosen = running.filter(({ label }) => stage === undefined || label === stage);
  // A running stage may have a kept VM of an earlier attempt: then the running VM is meant.
  if (chosen.length === 0 && (isRetained || running.length === 0)) {
    const { dir, vmKey, retention } = theOnly(await findRetained('exec', text, stage, context));
    return { runId, vm: { dir, vmKey, env: retention.env, untilMs: retention.untilMs }, record: null };
  }
  if (chosen.length === 0)
    throw createUsageError(
      `no command of stage \`${sanitizeLine(stage ?? '')}\` of run ${formatRunId(runId)} runs in a VM on this host`,
      `Stages that run: ${listLabels(running)}`,
    );
  if (chosen.length > 1 || (isRetained && stage === undefined))
    throw createUsageError(
      `${chosen.length + (stage === undefined ? all.length : 0)} stages of run ${formatRunId(runId)} have a VM: name one`,
      `voidbox exec ${quoteRunId(runId)} ${quoteStageName(chosen[0]!.label)} -- COMMAND`,
    );
  return enterRunning(runId, chosen[0]!, context);
}

const MOST_LABELS = 10;

function listLabels(running: readonly RunningStage[]): string {
  const more = running.length - MOST_LABELS;
  return `${running
    .slice(0, MOST_LABELS)
    .map(({ label }) => quoteStageName(label))
    .join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

function enterRunning(runId: string, running: RunningStage, context: Machine): Enterable {
  const { dir, vmKey, entry, label } = running;
  if (entry === null)
    throw new AppError(
      'environment',
      'cli/exec-refused',
      `the worker of run ${formatRunId(runId)} does not allow commands in the VM of stage ${sanitizeLine(label)} while it runs`,
      'Its operator allows it for later VMs: voidbox worker --allow-exec',
    );
  return {
    runId,
    vm: { dir, vmKey, env: entry.env, untilMs: null },
    record: async (program, call) => await recordEntry(runId, running, program, call, context),
  };
}

/** Names only the program, because its arguments may hold secrets. */
async function recordEntry(
  runId: string,
  { label, execKey }: RunningStage,
  program: string,
  call: string,
  context: Machine,
): Promise<void> {
  const { events } = await context.stores();
  const name = parseExecKey(execKey);
  const attempt = name === null ? execKey : formatAttempt(name);
  const message = `\`voidbox exec\` runs ${sanitizeLine(program).slice(0, 200)} in the VM of stage ${sanitizeLine(label)}`;
  const body = { type: 'notice', level: 'info', message } as const;
  await events.append(runId, [{ id: EVENT_ID.entered(attempt, call), atMs: context.now().getTime(), body }]);
}
