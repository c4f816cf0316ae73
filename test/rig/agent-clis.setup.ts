/** Gets what the agents' lane runs. What is not available fails the lane by its name: nothing of it is passed over in silence. */
import { readEnvironment } from '../../setup/environment.ts';
import { resolveOptionalPieces } from '../../setup/resolve.ts';

const WANTED = ['codex', 'claude', 'dev'] as const;

export default async function setup(): Promise<void> {
  const lacking: string[] = [];
  for (const name of WANTED) {
    try {
      await resolveOptionalPieces(readEnvironment(), [name], {
        install: true,
        onProgress: (line) => console.error(line),
      });
    } catch (error) {
      lacking.push(`NOT RUN: the tests of agents need ${name}: ${String(error)}`);
    }
  }
  if ((process.env['ANTHROPIC_API_KEY'] ?? '') === '')
    console.error(
      "NOT RUN: the examples with Anthropic's model: ANTHROPIC_API_KEY is not set. A script plays it in the others",
    );
  if (lacking.length > 0) throw new Error(lacking.join('\n'));
}
