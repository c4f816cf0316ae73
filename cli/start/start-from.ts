/** `voidbox retry` and `voidbox fork`. */
import { createUsageError } from '../../app/app-error.ts';
import { openRunControl } from '../../app/control/open-run-control.ts';
import { continueRequest, type ContinueOptions } from '../../app/start/continue-run.ts';
import { listSettled } from '../../domain/pipeline/reuse.ts';
import type { CliContext } from '../context.ts';
import type { ExitCode } from '../exit-code.ts';
import { renderContinued } from '../render/runs/continued.ts';
import { renderReuse } from '../render/runs/reuse.ts';
import { showNotices } from './compile-notices.ts';
import { type RunOptions, resolveImagePlaces, resolveRunOptions } from './run-options.ts';

export interface StartFromOptions extends RunOptions, ContinueOptions {
  readonly from?: string;
}

/** @param file  the spec of a fork; null: that of the earlier run */
export async function startFrom(
  text: string,
  file: string | null,
  options: StartFromOptions,
  context: CliContext,
): Promise<ExitCode> {
  const request = continueRequest(options, text);
  const { json = false } = options;
  if (file === '-' && options.input === '-')
    throw createUsageError('standard input cannot be both the spec and the input');
  const control = await openRunControl(context);
  const { plan, shown, confinedTo, isOfDeployment, start } = await control.prepare({
    earlier: text,
    file,
    from: options.from ?? null,
    params: options.param ?? null,
    limits: options,
    continue: request,
    hasInput: options.input !== undefined,
    images: resolveImagePlaces(options, context),
    onNotice: showNotices(context, json),
  });
  const { given, checkpoints, continued, limits } = shown;
  const settled = listSettled(plan, {
    given: new Set(given),
    firstDisks: new Set(checkpoints.map(({ scope }) => scope)),
  });
  // The service of a deployment has values of its variables. Those of this process count only for another spec.
  const own = file === null ? [] : plan.hostVariables.filter((name) => context.env.variables[name] !== undefined);
  const named = isOfDeployment ? { ...plan, hostVariables: own, stages: [] } : plan;
  const taken = await resolveRunOptions(named, options, { ...context, confinedTo }, settled);
  if (!json) {
    const { style } = context.stderr;
    const agents = continued === undefined || limits === undefined ? null : { continued, limits };
    const lines = [
      ...renderReuse(shown, style),
      ...(agents === null ? [] : renderContinued(plan, agents, context.now().getTime(), style)),
    ];
    await context.stderr.write(`${lines.join('\n')}\n`);
  }
  const { runPlan } = await import('./run-plan.ts');
  return await runPlan(
    { ...taken, shown, start: (onProgress) => start({ ...taken, mayAsk: !json }, onProgress) },
    context,
  );
}
