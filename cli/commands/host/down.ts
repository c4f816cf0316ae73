import { endRetainedVm, listRetainedVms } from '../../../client/vms/retained-vms.ts';
import { readListenState } from '../../../client/embedded/api-listeners.ts';
import type { HoldingSchedules } from '../../../client/embedded/schedules.ts';
import { readStack, stopStack } from '../../../client/embedded/stack.ts';
import { markStopped } from '../../../client/embedded/stop-mark.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { findStateFormatProblem } from '../../../store/state-format.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { listVms } from '../../../client/vms/vm-list.ts';
import type { Environment } from '../../../setup/environment.ts';
import { renderStoppedListeners } from '../../render/host/stack.ts';
import { renderStoppedSchedules } from '../../render/runs/schedules.ts';
import { renderStoppedTriggers } from '../../render/host/triggers.ts';
import { readEnabledTriggers } from '../../../client/embedded/trigger-mark.ts';
import { keeperOf } from '../../../app/runs/retained-vms.ts';
import { findCommonRunId } from '../../../app/runs/run-id.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  takesAnyStateFormat: true,
  configure: () => undefined,
  async execute(_args, options, context) {
    const { env } = context;
    markStopped(env.stateDir);
    // Only a running server can report its schedules.
    const schedules = await readSchedules(env);
    const listen = await readListenState(env.stateDir);
    const deployments = readEnabledTriggers(env.stateDir);
    const stopped = await stopStack(env);
    const retained = await listRetainedVms(env.stateDir, keeperOf(context));
    for (const vm of retained) await endRetainedVm(vm, keeperOf(context));
    if (options.json) {
      await context.stdout.write(
        `${JSON.stringify({ stopped, releasedVms: retained.length, apiListeners: listen?.listeners ?? [], schedules, deployments })}\n`,
      );
      return EXIT.success;
    }
    const running = (await listVms(env.stateDir, keeperOf(context))).filter((vm) => vm.state === 'running');
    const vms = running.filter(({ direct }) => direct === null);
    const sandboxes = running.length - vms.length;
    const problem = findStateFormatProblem(env.stateDir);
    const lines = [
      stopped
        ? `The embedded stack has stopped.${problem === null ? ' Open runs continue at the next start.' : ''}`
        : 'The embedded stack was not running.',
    ];
    lines.push(...renderStoppedSchedules(schedules, { nowMs: context.now().getTime(), canStart: problem === null }));
    if (problem === null && stopped) lines.push(...renderStoppedTriggers(deployments));
    if (problem === null) lines.push(...renderStoppedListeners(listen));
    if (retained.length > 0)
      lines.push(
        `${retained.length === 1 ? '1 VM that a failed stage' : `${retained.length} VMs that failed stages`} had kept for inspection ${retained.length === 1 ? 'has' : 'have'} ended.`,
      );
    if (problem !== null) {
      lines.push(`This build cannot continue its runs: ${sanitizeLine(problem)}.`);
      if (vms.length > 0)
        lines.push(
          `${vms.length === 1 ? '1 VM of its runs keeps running and ends' : `${vms.length} VMs of its runs keep running and end`} after 15 minutes without a worker, unless VOIDBOX_ORPHAN_TIMEOUT_MS was set (voidbox ps).`,
        );
    } else if (vms.length > 0) {
      lines.push(
        `${vms.length === 1 ? '1 of their VMs keeps running' : `${vms.length} of their VMs keep running`} until then (voidbox ps). End a run and its VMs: voidbox cancel ${findCommonRunId(vms.map(({ runId }) => runId))}`,
      );
    }
    if (sandboxes > 0) {
      lines.push(
        `${sandboxes === 1 ? '1 sandbox' : `${sandboxes} sandboxes`} of other programs ${sandboxes === 1 ? 'is' : 'are'} not part of the stack and ${sandboxes === 1 ? 'continues' : 'continue'} (voidbox ps).`,
      );
    }
    await context.stdout.write(context.advise(`${lines.join('\n')}\n`));
    return EXIT.success;
  },
});

/** Null: no stack runs, or its server did not answer. */
async function readSchedules(env: Environment): Promise<HoldingSchedules | null> {
  const stack = await readStack(env);
  if (stack === null) return null;
  const { findHoldingSchedules } = await import('../../../client/embedded/schedules.ts');
  return await findHoldingSchedules(stack);
}
