/** Gets what the agents' lane runs. What is not available fails the lane by its name: nothing of it is passed over in silence. */
import { needAgents } from './need-agents.ts';

export default async function setup(): Promise<void> {
  if ((process.env['ANTHROPIC_API_KEY'] ?? '') === '')
    console.error(
      "NOT RUN: the examples with Anthropic's model: ANTHROPIC_API_KEY is not set. A script plays it in the others",
    );
  await needAgents('the tests of agents', ['codex', 'claude', 'dev']);
}
