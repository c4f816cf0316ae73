/** A dispatcher with topics to read and two sub-skills to go through. */
import { act, prompt, skill, terminal, z } from 'voidbox/skill-kit';

const setUp = skill({
  name: 'set-up',
  entry: 'tools',
  params: z.object({ language: z.string() }),
})
  .step('tools', {
    prompt: ({ params }) => prompt`Look which tools for ${params.language} are installed, with their versions.`,
    response: z.object({ tools: z.record(z.string(), z.string()) }),
    next: 'build',
  })
  .step('build', {
    prompt: 'Build the project and run its tests once.',
    response: z.object({ passed: z.boolean(), lastLines: z.string() }),
    save: ({ response, store }) => ({ step: { ready: response.passed, tools: store.steps.tools.tools } }),
    next: terminal,
  })
  .build();

const firstIssue = skill({
  name: 'first-issue',
  entry: 'choose',
})
  .step('choose', {
    prompt: 'List three open issues that a newcomer could take, the smallest first, and take one.',
    response: z.object({ issue: z.number().int().positive(), why: z.string() }),
    next: 'plan',
  })
  .step('plan', {
    prompt: ({ store }) => prompt`Write the steps in which issue ${store.steps.choose.issue} can be done.`,
    response: z.object({ steps: z.array(z.string()).min(1) }),
    save: ({ response, store }) => ({ step: { issue: store.steps.choose.issue, steps: response.steps } }),
    next: terminal,
  })
  .build();

const Wish = z.object({
  want: z.enum(['set-up', 'first-issue', 'style', 'review']),
  language: z.string().default('TypeScript'),
});

export default skill({
  name: 'contributor-guide',
  version: '1.0.0',
  description: 'Brings a newcomer from a fresh clone to a first change.',
  entry: 'ask',
})
  .step('ask', {
    prompt: [
      'Find out what the newcomer wants.',
      act.askUser({
        type: 'structured',
        header: 'Begin',
        question: 'What do you need?',
        options: [
          { value: 'set-up', label: 'A machine that builds it' },
          { value: 'first-issue', label: 'Something to work on' },
          { value: 'style', label: 'How code looks here' },
          { value: 'review', label: 'How reviews go' },
        ],
      }),
    ],
    response: Wish,
    next: [
      { to: 'subskill:set-up', when: ({ response }) => response.want === 'set-up' },
      { to: 'subskill:first-issue', when: ({ response }) => response.want === 'first-issue' },
      { to: 'topic:style', when: ({ response }) => response.want === 'style' },
      { to: 'topic:review' },
    ],
  })
  .subskill('set-up', setUp, { params: (response) => ({ language: Wish.parse(response).language }) })
  .subskill('first-issue', firstIssue)
  .topic('style', { label: 'How code looks here', content: () => 'Names are full words. A comment says why.' })
  .topic('review', {
    label: 'How reviews go',
    content: () => 'Two people read each change; its author merges it.',
  })
  .build();
