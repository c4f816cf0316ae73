/** A stage whose work is a command: from its start to what it comes to. */
import type { StageResult } from '../../domain/run/stage-result.ts';
import { commandOf, isService } from '../../domain/plan/work.ts';
import type { Redactor } from '../../domain/security/redactor.ts';
import type { ActivityDeps } from '../deps.ts';
import { outputMismatch } from './output-check.ts';
import type { Exec, ExecExit, ExecRequest, Sandbox } from '../ports/sandbox.ts';
import type { StageRequest } from '../calls/requests.ts';
import { stdinOf } from './inputs.ts';
import { beginAttempt } from './begin.ts';
import { follow } from './follow-command.ts';
import { createServiceOutput, leftAtCancel, publishing } from './service-output.ts';
import { copyMountsBack } from '../vm/mounts.ts';
import { collectOutputs, type OutcomeFailure } from './outputs.ts';
import { describeExit } from './result.ts';
import { takeWorkspace } from '../workspace/stage-workspace.ts';
import type { Worked } from './stage-attempt.ts';

export async function runStageCommand(
  context: Worked,
  sandbox: Sandbox,
  env: Readonly<Record<string, string>>,
  redactor: Redactor,
): Promise<{ readonly result: StageResult; readonly execs: readonly Exec[] }> {
  const { deps, request, life } = context;
  await beginAttempt(context, sandbox, redactor, null);
  const exec = await sandbox.exec(commandExec(deps, request, env), life.ended);
  const published = createServiceOutput({ deps, request, sandbox, redactor });
  life.phase(isService(request.stage.work) ? 'serving' : 'running');
  const exit = await follow(context, sandbox, exec, redactor, published === null ? [] : [publishing(published, exec)]);
  life.phase('collecting outputs');
  return { result: await settle(context, sandbox, exec, exit, redactor), execs: [exec] };
}

function commandExec(
  { artifacts }: ActivityDeps,
  request: StageRequest,
  env: Readonly<Record<string, string>>,
): ExecRequest {
  const { stage, execKey } = request;
  const command = commandOf(stage.work);
  if (command === null) throw new Error(`stage ${stage.id} has no command`);
  const { program, args, cwd } = command;
  const { timeoutMs, maxOutputBytes } = stage;
  return { key: execKey, program, args, env, cwd, stdin: stdinOf(artifacts, request), timeoutMs, maxOutputBytes };
}

/** What the ended command comes to. Only a success leaves outputs and writes mounts back. */
async function settle(
  context: Worked,
  sandbox: Sandbox,
  exec: Exec,
  exit: ExecExit,
  redactor: Redactor,
): Promise<StageResult> {
  const { deps, request, life } = context;
  const base = await describeExit(context.backend, sandbox, exec, exit, request, redactor, life.detached);
  const copyBack = (): Promise<OutcomeFailure | null> =>
    copyMountsBack(deps, sandbox, request, context.vmKey, life.detached);
  if (base.outcome === 'cancelled' && isService(request.stage.work))
    return {
      ...base,
      ...(await leftAtCancel({ deps, request, sandbox, redactor }, exec, copyBack, life.detached)),
    };
  if (base.outcome !== 'succeeded') return base;
  const collected = await collectOutputs(deps.artifacts, sandbox, exec, request.stage, redactor, life.detached);
  // Names of files are the command's own words.
  const failed = ({ code, message }: OutcomeFailure): StageResult => ({
    ...base,
    outcome: 'failed',
    failure: { code, message: redactor.text(message), stderrTail: '' },
  });
  if (collected.failure !== null) return failed(collected.failure);
  const mismatch = await outputMismatch(deps, request.stage, collected.output);
  if (mismatch !== null) return failed(mismatch);
  const left = await takeWorkspace(deps, sandbox, request, context.workspace, life);
  if (left.failure !== null) return failed(left.failure);
  const refused = await copyBack();
  if (refused !== null) return failed(refused);
  return { ...base, output: collected.output, outputs: { ...collected.outputs, ...left.outputs } };
}
