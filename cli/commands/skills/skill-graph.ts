import { createUsageError } from '../../../app/app-error.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { codeAuthorErrors } from '../../skills/skill-error.ts';

interface Options {
  readonly json?: boolean;
  readonly format: string;
}

export const command = defineCommand<Options>({
  takesAnyStateFormat: true,
  configure: (command) => {
    command
      .argument('<entry>', 'the file whose default export is the step machine, or its folder')
      .option('-f, --format <format>', 'text, or mermaid: a flowchart for Markdown', 'text');
  },
  async execute([entry = ''], { json, format }, context) {
    if (format !== 'text' && format !== 'mermaid')
      throw createUsageError(`--format is \`${format}\``, 'It must be text or mermaid.');
    const { readGraph } = await import('../../../skill-kit/graph/read-graph.ts');
    const { graph } = await codeAuthorErrors(readGraph(entry, context.cwd));
    if (json) await context.stdout.write(`${JSON.stringify(graph)}\n`);
    else if (format === 'mermaid') {
      const { toMermaid } = await import('../../../skill-kit/graph/mermaid.ts');
      await context.stdout.write(toMermaid(graph));
    } else {
      const { renderSkillGraph } = await import('../../render/skills/skill-graph.ts');
      await context.stdout.write(renderSkillGraph(graph, context.stdout.style));
    }
    return EXIT.success;
  },
});
