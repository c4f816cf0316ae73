/** Three reviews of one change side by side; the verdict waits for all of them. */
import { prompt, render, skill, terminal, z } from 'voidbox/skill-kit';

const Review = z.object({ approved: z.boolean(), remarks: z.array(z.string()) });

export default skill({
  name: 'parallel-review',
  version: '1.0.0',
  description: 'Reviews a change for correctness, security and clarity at once.',
  entry: 'read',
  params: z.object({ change: z.string().describe('A commit or a branch') }),
})
  .step('read', {
    prompt: ({ params }) => prompt`Read the change ${params.change} and say in a sentence what it does.`,
    response: z.object({ summary: z.string() }),
    next: 'review',
  })
  .step('review', { parallel: { branches: ['correctness', 'security', 'clarity'], join: 'verdict' } })
  .step('correctness', {
    prompt: ({ store }) => prompt`"${store.steps.read.summary}": does it do that, at every edge?`,
    response: Review,
    next: 'verdict',
  })
  .step('security', {
    prompt: ({ store }) => prompt`"${store.steps.read.summary}": what could someone hostile make of it?`,
    response: Review,
    next: 'verdict',
  })
  .step('clarity', {
    prompt: ({ store }) => prompt`"${store.steps.read.summary}": would a newcomer understand it?`,
    response: Review,
    next: 'verdict',
  })
  .step('verdict', {
    save: ({ store }) => {
      const { correctness, security, clarity } = store.steps;
      const reviews = { correctness, security, clarity };
      const rows = Object.entries(reviews).map(([by, { approved, remarks }]) => ({
        by,
        approved,
        remarks: remarks.join('; '),
      }));
      return { step: { approved: rows.every(({ approved }) => approved), table: render.table(rows) } };
    },
    next: terminal,
  })
  .build();
