/** Finds what a repository lacks and gets it fixed, round by round: a loop with a bound, a branch, an action. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { action, prompt, skill, terminal, z } from 'voidbox/skill-kit';

const CHECKS = [
  { id: 'readme', file: 'README.md', why: 'a newcomer has nowhere to begin' },
  { id: 'licence', file: 'LICENSE', why: 'its users do not know what they may do with it' },
  { id: 'changelog', file: 'CHANGELOG.md', why: 'users cannot tell what changed' },
  { id: 'ignore', file: '.gitignore', why: 'what is built gets committed' },
] as const;

const Finding = z.object({ id: z.string(), file: z.string(), why: z.string() });

/** Looks only; what is missing is for the agent to write. */
const examine = action({
  name: 'examine',
  input: z.object({ folder: z.string() }),
  output: z.object({ findings: z.array(Finding) }),
  run: ({ input }) => ({ findings: CHECKS.filter(({ file }) => !existsSync(join(input.folder, file))) }),
});

export default skill({
  name: 'repository-doctor',
  version: '1.0.0',
  description: 'Finds what a repository lacks and gets it fixed.',
  triggers: ['repository health', 'missing readme'],
  entry: 'examine',
  params: z.object({ folder: z.string().describe('The repository') }),
  stores: { visit: z.object({ repaired: z.array(z.string()) }) },
})
  .step('examine', {
    action: { run: examine, mapInput: ({ params }) => ({ folder: params.folder }) },
    // A round for each, and the look that finds nothing.
    maxVisits: CHECKS.length + 1,
    onMaxVisits: 'refer',
    next: [{ to: 'discharge', when: ({ actionResult }) => actionResult.findings.length === 0 }, { to: 'treat' }],
  })
  .step('treat', {
    prompt: ({ store, params, attempts }) => {
      const findings = store.steps.examine?.findings ?? [];
      return prompt`
        Round ${attempts + 1}. In ${params.folder} these are missing:
        ${findings.map(({ file, why }) => `- ${file}: ${why}`).join('\n')}
        Write the first of them, then say which file it was.
      `;
    },
    response: z.object({ file: z.string() }),
    save: ({ response, store }) => ({ visit: { repaired: [...(store.visit?.repaired ?? []), response.file] } }),
    next: 'examine',
  })
  .step('discharge', {
    save: ({ store }) => ({ step: { healthy: true, repaired: store.visit?.repaired ?? [] } }),
    next: terminal,
  })
  .step('refer', {
    save: ({ store }) => ({ step: { healthy: false, repaired: store.visit?.repaired ?? [] } }),
    next: terminal,
  })
  .build();
