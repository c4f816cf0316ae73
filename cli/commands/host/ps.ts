import { resolveStackPieces } from '../../../setup/resolve.ts';
import { readAllowedMounts } from '../../../client/embedded/allowed-mounts.ts';
import { readAllowedSources } from '../../../client/embedded/allowed-sources.ts';
import { readListenState } from '../../../client/embedded/api-listeners.ts';
import { findApiSocket } from '../../../client/embedded/api-socket.ts';
import type { HoldingSchedules } from '../../../client/embedded/schedules.ts';
import { readStack, type StackInfo } from '../../../client/embedded/stack.ts';
import { listServices } from '../../../client/service/serving.ts';
import { readDiskState } from '../../../client/vms/disk-state.ts';
import { type ListedVm, listVms } from '../../../client/vms/vm-list.ts';
import { findStateFormatProblem } from '../../../store/state-format.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { remedyOf } from '../../../domain/errors/error-code.ts';
import { stageOfRetained } from '../../../domain/run/retained-vm.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { formatAge, formatDurationMs } from '../../../domain/units/duration.ts';
import { describeDisk, FREE_SPACE, MAKE_ROOM } from '../../render/host/disk.ts';
import { renderSchedules } from '../../render/runs/schedules.ts';
import { renderServices } from '../../render/host/serve.ts';
import { renderTriggers } from '../../render/host/triggers.ts';
import { readEnabledTriggers } from '../../../client/embedded/trigger-mark.ts';
import { renderStack } from '../../render/host/stack.ts';
import { renderTable } from '../../render/text/table.ts';
import { describeVmLimits } from '../../../app/lines/vm-facts.ts';
import { findCommonRunId } from '../../../app/runs/run-id.ts';

interface Options {
  readonly all?: boolean;
  readonly json?: boolean;
}

export const command = defineCommand<Options>({
  takesAnyStateFormat: true,
  configure: (command) => {
    command.option('-a, --all', 'include VMs that have ended and whose files still exist');
  },
  async execute(_args, options, context) {
    const { env, stdout } = context;
    const stack = await readStack(env);
    const findKeeper = async (): Promise<string> => (await resolveStackPieces(env, { install: false })).keeper;
    const vms = (await listVms(env.stateDir, findKeeper)).filter((vm) => options.all || vm.state === 'running');
    const disk = await readDiskState(env.stateDir, null);
    const problem = findStateFormatProblem(env.stateDir);
    // In another format the file may have another meaning.
    const allowed = problem === null ? readAllowedMounts(env.stateDir) : [];
    const allowedSources = problem === null ? readAllowedSources(env.stateDir) : { watch: [], outbox: [], queue: [] };
    const schedules = await schedulesOf(stack);
    const deployments = problem === null ? readEnabledTriggers(env.stateDir) : null;
    const apiSocket = stack === null ? null : findApiSocket(env.stateDir);
    const listen = stack === null ? null : await readListenState(env.stateDir);
    const apiListeners = listen?.listeners ?? [];
    const services = listServices(env.stateDir);
    if (options.json) {
      await stdout.write(
        `${JSON.stringify({ stack, apiSocket, apiListeners, services, vms, disk, allowedMounts: allowed, allowedSources, schedules, deployments, stateProblem: problem })}\n`,
      );
      return EXIT.success;
    }
    const lines =
      stack === null
        ? [context.advise(describeNoStack(env.temporalConfigured, problem !== null))]
        : [
            ...renderStack(stack, {
              nowMs: context.now().getTime(),
              stateDir: env.stateDir,
              allowedMounts: allowed,
              allowedSources,
              apiSocket,
              listen,
            }),
            ...renderSchedules(schedules, context.now().getTime()),
            ...(problem === null ? renderTriggers(deployments) : []),
          ];
    lines.push(...renderServices(services));
    if (problem !== null)
      lines.push(
        '',
        stdout.style.yellow(sanitizeLine(problem)),
        `${stdout.style.cyan('help:')} ${context.advise(remedyOf('host/state-format') ?? '')}`,
        '',
      );
    if (vms.length === 0) lines.push('VMs         none');
    else
      lines.push(
        '',
        ...renderTable(
          ['VM', 'STATE', 'VMM', 'MEMORY', 'LIMITS', 'STARTED', 'DIRECTORY'],
          vms.map((vm) => cellsOf(vm, context.now().getTime())),
          { style: stdout.style, width: stdout.width() },
        ),
      );
    const retaining = vms.flatMap(({ runId, retention }) => (retention === null ? [] : [runId]));
    if (retaining.length > 0)
      lines.push(
        '',
        context.advise(
          problem === null
            ? `Failed stages left VMs. End those of a run: voidbox release ${findCommonRunId(retaining)}`
            : 'Failed stages left VMs. End them: voidbox down',
        ),
      );
    const held = describeDisk(disk, env.stateDir);
    if (held.length > 0)
      lines.push(
        '',
        ...held.map((line) => stdout.style.yellow(line)),
        `${stdout.style.cyan('help:')} ${context.advise(problem === null ? MAKE_ROOM : FREE_SPACE)}`,
      );
    await stdout.write(`${lines.join('\n')}\n`);
    return EXIT.success;
  },
});

/** `voidbox up` is no remedy if the folder is refused: the command refuses it too. */
function describeNoStack(isOwnServer: boolean, isRefused: boolean): string {
  if (isOwnServer) return 'TEMPORAL_* names your own server; the embedded stack is not running. See: voidbox doctor';
  return `The embedded stack is not running.${isRefused ? '' : ' Start it: voidbox up'}`;
}

/** Null: no stack runs, or its server did not answer. */
async function schedulesOf(stack: StackInfo | null): Promise<HoldingSchedules | null> {
  if (stack === null) return null;
  const { findHoldingSchedules } = await import('../../../client/embedded/schedules.ts');
  return await findHoldingSchedules(stack);
}

function cellsOf(vm: ListedVm, nowMs: number): readonly string[] {
  const { state, activity, vmm, memoryMib, limits, startedAtMs, dir, retention } = vm;
  const does = activity ?? (state === 'running' ? 'no answer' : state);
  return [
    describeVm(vm),
    retention === null
      ? does
      : `${does}, left by ${sanitizeLine(stageOfRetained(retention))} for ${formatDurationMs(Math.max(0, retention.untilMs - nowMs))}`,
    sanitizeLine(vmm ?? '-'),
    memoryMib === null ? '-' : `${memoryMib} MiB`,
    limits === null ? '-' : describeVmLimits(limits),
    startedAtMs === null ? '-' : formatAge(nowMs - startedAtMs),
    dir,
  ];
}

/** A VM of a run by its key; one of another process with the name that it has there. */
function describeVm({ vmKey, direct }: ListedVm): string {
  if (direct === null) return sanitizeLine(vmKey ?? '-');
  const { id, name, keepTtlMs, launchedByPid } = direct;
  const named = name === null ? '' : `${sanitizeLine(name)}, `;
  return `sandbox ${id} (${named}${keepTtlMs === null ? `of process ${launchedByPid}` : 'kept'})`;
}
