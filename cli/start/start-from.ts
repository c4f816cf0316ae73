/** `voidbox retry` and `voidbox fork`. */
import { createUsageError } from '../../app/app-error.ts';
import { continueRequest, type ContinueOptions } from '../../app/start/continue-run.ts';
import { prepareRerun } from '../../app/start/prepare-rerun.ts';
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
  const { compiled, plan, origin, reuse, continued, isSamePlan, confinedTo } = await prepareRerun(
    {
      earlier: text,
      file,
      from: options.from ?? null,
      params: options.param ?? null,
      limits: options,
      continue: request,
      hasInput: options.input !== undefined,
      images: resolveImagePlaces(options, context),
      onNotice: showNotices(context, json),
    },
    context,
  );
  const taken = await resolveRunOptions(
    compiled.plan,
    options,
    { ...context, confinedTo },
    listSettled(compiled.plan, reuse),
  );
  if (!json) {
    const { style } = context.stderr;
    const lines = [
      ...renderReuse(origin, reuse, style),
      ...(continued === null ? [] : renderContinued(compiled.plan, continued, context.now().getTime(), style)),
    ];
    await context.stderr.write(`${lines.join('\n')}\n`);
  }
  const { runPlan } = await import('./run-plan.ts');
  return await runPlan({ ...compiled, ...taken, plan, from: { origin, reuse, continued, isSamePlan } }, context);
}
