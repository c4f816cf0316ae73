/** A person decides, within a day; silence is a decision too. */
import { act, prompt, skill, terminal, z } from 'voidbox/skill-kit';

const DAY_MS = 86_400_000;

/** @param deadlineMs  how long the person has */
export const releaseApproval = (deadlineMs: number) =>
  skill({
    name: 'release-approval',
    version: '1.0.0',
    description: 'Prepares a release and waits for a person to approve it.',
    entry: 'notes',
    params: z.object({ version: z.string() }),
  })
    .step('notes', {
      prompt: ({ params }) => prompt`Write the release notes of ${params.version}: what users gain, what breaks.`,
      response: z.object({ notes: z.string().min(1), breaking: z.boolean() }),
      next: 'approve',
    })
    .step('approve', {
      human: { deadlineMs, onExpiry: 'expired', assignee: 'release manager' },
      prompt: ({ store, params }) => [
        store.steps.notes.notes,
        act.confirm({ message: `Release ${params.version}?`, destructive: store.steps.notes.breaking }),
      ],
      response: z.object({ approved: z.boolean(), by: z.string() }),
      next: [{ to: 'released', when: ({ response }) => response.approved }, { to: 'declined' }],
    })
    .step('released', {
      save: ({ store, params }) => ({
        step: { outcome: 'released', version: params.version, by: store.steps.approve?.by ?? null },
      }),
      next: terminal,
    })
    .step('declined', {
      save: ({ store, params }) => ({
        step: { outcome: 'declined', version: params.version, by: store.steps.approve?.by ?? null },
      }),
      next: terminal,
    })
    .step('expired', {
      save: ({ params }) => ({ step: { outcome: 'expired', version: params.version, by: null } }),
      next: terminal,
    })
    .build();

export default releaseApproval(DAY_MS);
