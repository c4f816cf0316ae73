import { existsSync } from 'node:fs';
import { extname, resolve } from 'node:path';
import type { Plan } from '../../../domain/plan/plan.ts';
import { findUnsupportedParts } from '../../../domain/plan-rules/unsupported.ts';
import { fromWire, type PlanWire, toWire } from '../../../domain/plan/wire.ts';
import { type BaseDirOption, resolveBaseDir } from '../../../app/start/base-dir.ts';
import { addBaseDirOption } from '../../start/spec-options.ts';
import { AppError, createUsageError } from '../../../app/app-error.ts';
import { defineCommand } from '../../command.ts';
import type { CliContext } from '../../context.ts';
import { EXIT } from '../../exit-code.ts';
import { readSettings } from '../../../app/start/host-settings.ts';
import { writeSettings } from '../../start/compile-notices.ts';
import { loadSpec } from '../../../app/start/load-spec.ts';
import { parseParam } from '../../start/spec-options.ts';
import { renderDiagnostics } from '../../render/spec/diagnostics.ts';
import { REQUIRE_PARAMS_HELP, renderMissingParams } from '../../render/spec/missing-params.ts';
import { planToMermaid, renderPlanGraph } from '../../render/spec/plan-graph.ts';
import { quoteRunId } from '../../../domain/run/run-id.ts';
import { formatRunId } from '../../../app/runs/run-id.ts';
import { findRunId } from '../../../app/runs/run-lookup.ts';

interface Options extends BaseDirOption {
  readonly json?: boolean;
  readonly format: string;
  readonly param?: Record<string, string>;
  readonly requireParams?: boolean;
}

/** Endings of spec files. A path with such an ending counts as a spec even if the file is missing, never as a run. */
const ENDINGS: readonly string[] = ['.yaml', '.yml', '.json', '.ts', '.mts', '.js', '.mjs'];

export const command = defineCommand<Options>({
  configure: (command) => {
    command
      .argument('<file|run>', 'a spec or its definition, - for standard input, or a run')
      .option('--param <name=value>', 'set a parameter of the spec; repeatable', parseParam)
      .option('--require-params', REQUIRE_PARAMS_HELP)
      .option('-f, --format <format>', 'text, or mermaid: a flowchart for Markdown', 'text');
    addBaseDirOption(command);
  },
  async execute([what = ''], options, context) {
    const { format } = options;
    if (format !== 'text' && format !== 'mermaid')
      throw createUsageError(`--format is \`${format}\``, 'It must be text or mermaid.');
    const { plan, missingParams } = isSpec(what, context)
      ? await planOfSpec(what, options, context)
      : { plan: await planOfRun(what, options, context), missingParams: [] };
    const { stdout } = context;
    if (options.json)
      await stdout.write(
        `${JSON.stringify({ name: plan.name, kind: plan.kind, missingParams, plan: toWire(plan), unsupported: findUnsupportedParts(plan, 'read', 'read') })}\n`,
      );
    else await stdout.write(format === 'mermaid' ? planToMermaid(plan) : renderPlanGraph(plan, stdout.style));
    return EXIT.success;
  },
});

function isSpec(what: string, { cwd }: CliContext): boolean {
  return what === '-' || ENDINGS.includes(extname(what)) || existsSync(resolve(cwd, what));
}

async function planOfSpec(
  file: string,
  options: Options,
  context: CliContext,
): Promise<{ readonly plan: Plan; readonly missingParams: readonly string[] }> {
  const settings = readSettings(context);
  const baseDir = resolveBaseDir(options, context.cwd);
  const values = {
    params: options.param ?? {},
    settings,
    allowsMissingParams: options.requireParams !== true,
    ...(baseDir === undefined ? {} : { baseDir }),
  };
  const { plan, diagnostics, sources, appliedSettings, missingParams } = await loadSpec(file, values, context);
  if (plan !== null) {
    await writeSettings(settings, appliedSettings, context.stderr);
    // The graph may go into a file.
    await context.stderr.write(renderMissingParams(missingParams));
    return { plan, missingParams };
  }
  await context.stderr.write(
    options.json
      ? `${JSON.stringify({ diagnostics })}\n`
      : renderDiagnostics(diagnostics, sources, { style: context.stderr.style, width: context.stderr.width() }),
  );
  throw new AppError('usage', 'spec/invalid', `\`${file}\` is not a spec that can run`);
}

async function planOfRun(text: string, { param, requireParams }: Options, context: CliContext): Promise<Plan> {
  const { index, records } = await context.stores();
  const runId = await findRunId(index, text).catch((error: unknown) => {
    if (!(error instanceof AppError)) throw error;
    throw new AppError(error.fault, error.code, `${error.message}, and no such file`, error.remedy);
  });
  if (param !== undefined || requireParams === true)
    throw createUsageError(
      `${param === undefined ? '--require-params' : '--param'} is for a spec, and \`${text}\` is a run, whose plan has its values`,
      'Leave it out, or name the file of the spec.',
    );
  const wire = await records.get(runId, 'plan');
  if (wire === null || wire === undefined)
    throw createUsageError(
      `run ${formatRunId(runId)} has no plan on this machine`,
      `It was not admitted, or its files are on another host: voidbox status ${quoteRunId(runId)}`,
    );
  return fromWire(wire as PlanWire);
}
