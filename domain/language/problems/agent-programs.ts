/** Warns of commands that start the command line of an agent: only VMs of stages with an agent contain it. */
import { isOwnImage } from '../grammar/sandbox-table.ts';
import type { Problems } from '../text/diagnostics.ts';
import type { Spec, StageSpec } from '../read/spec.ts';
import { quote } from '../../units/quote.ts';

const PROGRAMS: Readonly<Record<string, string>> = { codex: 'codex', claude: 'claude', 'claude-code': 'claude' };

/** An image of the author may contain the program, so such a VM gets no warning. */
export function warnOfAgentPrograms(stage: StageSpec, spec: Spec, what: string, problems: Problems): void {
  const { run } = stage;
  const image = stage.sandbox?.image ?? spec.sandbox?.image ?? null;
  if (run === null || (image !== null && !isOwnImage(image.value))) return;
  const words =
    run.script === null ? [run.program.value] : run.script.reading.commands.map(([first]) => first?.text ?? '');
  const program = words.find((word) => Object.hasOwn(PROGRAMS, word));
  if (program === undefined) return;
  problems.warning(
    'spec/unsupported',
    run.script?.text.at ?? run.program.at,
    `${what} starts ${quote(program)}, the command line of an agent, which the guest of a command does not have`,
    `write a stage with \`prompt\` and \`llm: { provider: ${PROGRAMS[program]!} }\`, or name an image of your own that has the program in \`sandbox\`: \`image: ./FOLDER\``,
  );
}
