/**
 * Runs one command in a micro-VM, from any workflow. It is placed on a host first, so that each attempt finds the state
 * that the previous attempt left.
 */
import { proxyActivities, uuid4 } from '@temporalio/workflow';
import type { CommandActivities, CommandOutcome, CommandRequest } from '../activities/contract-command.ts';
import { STAGE_DEFAULTS } from '../domain/plan/defaults.ts';
import { ACTIVITY_OPTIONS, stageScheduleToCloseMs } from './activity-options.ts';
import { summaryOf } from './summary.ts';

const { placeCommand } = proxyActivities<CommandActivities>(ACTIVITY_OPTIONS.admit);
const { runCommand: callCommand } = proxyActivities<CommandActivities>(ACTIVITY_OPTIONS.runStage);

export interface RunCommandOptions {
  /** A task queue whose workers have the plugin; default: the queue of the workflow. */
  readonly taskQueue?: string;
  /** The text that the Temporal UI shows with the activity; default: the program and its arguments. */
  readonly summary?: string;
}

/**
 * Runs a command once and returns how it ended: an exit code other than 0 is a result. A lost VM makes the command run
 * again; a worker that dies does not.
 * @throws ActivityFailure when the command is refused, when no VM is available, or when the workflow is cancelled
 */
export async function runCommand(request: CommandRequest, options: RunCommandOptions = {}): Promise<CommandOutcome> {
  const activityId = `command-${uuid4()}`;
  const { program, args = [], name = program, timeoutMs } = request;
  const { taskQueue, summary = [program, ...args].join(' ') } = options;
  const placement = await placeCommand.executeWithOptions(
    {
      ...ACTIVITY_OPTIONS.admit,
      ...(taskQueue === undefined ? {} : { taskQueue }),
      summary: summaryOf(`place ${name}`),
    },
    [{ ...request, activityId }],
  );
  return await callCommand.executeWithOptions(
    {
      ...ACTIVITY_OPTIONS.runStage,
      activityId,
      taskQueue: placement.taskQueue,
      scheduleToCloseTimeout: stageScheduleToCloseMs(
        typeof timeoutMs === 'number' && timeoutMs > 0 ? timeoutMs : STAGE_DEFAULTS.timeoutMs,
      ),
      summary: summaryOf(summary),
    },
    [request],
  );
}
