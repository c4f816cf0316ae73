import { defineCommand } from '../command.ts';
import { EXIT } from '../exit-code.ts';
import { loadSpec, parseParam } from '../load-spec.ts';
import { renderDiagnostics } from '../render/diagnostics.ts';
import { renderPlanSummary } from '../render/plan.ts';

interface Options {
  readonly json?: boolean;
  readonly param?: Record<string, string>;
}

export const command = defineCommand<Options>({
  configure: (command) => {
    command
      .argument('<file>', 'the spec; - is standard input')
      .option('--param <name=value>', "a value for one of the spec's params; once for each", parseParam);
  },
  async execute([file = ''], options, context) {
    const loaded = await loadSpec(file, options.param ?? {}, context);
    const { plan, diagnostics } = loaded;
    if (options.json) {
      await context.stdout.write(
        `${JSON.stringify({ file: loaded.file, valid: plan !== null, name: plan?.name ?? null, kind: plan?.kind ?? null, stages: plan?.stages.map((stage) => stage.id) ?? [], diagnostics })}\n`,
      );
      return plan === null ? EXIT.usage : EXIT.success;
    }
    if (diagnostics.length > 0)
      await context.stderr.write(
        renderDiagnostics(diagnostics, loaded.text, { style: context.stderr.style, width: context.stderr.width() }),
      );
    if (plan === null) return EXIT.usage;
    await context.stdout.write(renderPlanSummary(loaded.file, plan, { style: context.stdout.style }));
    return EXIT.success;
  },
});
