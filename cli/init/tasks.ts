/** The tasks that `init --list` sorts templates by. */

const TASKS: Readonly<Record<string, readonly string[]>> = {
  'a first run': ['first', 'hello'],
  'agents that change a repository': ['fix-a-test', 'review-a-patch', 'release-notes'],
  'other agents': ['agents', 'research', 'review-skill', 'mocks'],
  'runs that events start': ['pull-requests', 'nightly-report', 'queue-consumer'],
  people: ['approval', 'approve-each'],
  'lists of files and values': ['files', 'for-each', 'for-each-part', 'for-each-nested', 'for-each-loop'],
  'order and conditions': ['conditions', 'loop', 'uses', 'parts', 'outputs-in-arguments', 'wait'],
  failures: ['retry', 'continue-on-error', 'on-failure', 'finally'],
  'data between stages': ['weather-dag', 'files-pipeline'],
  'images, network and keys': ['dev-image', 'egress', 'secrets', 'service'],
};

/** In the order of the list. */
export const TASK_NAMES: readonly string[] = Object.keys(TASKS);

/** @throws Error for a template without a task */
export function findTask(template: string): string {
  const found = Object.entries(TASKS).find(([, names]) => names.includes(template));
  if (found === undefined) throw new Error(`cli/init/tasks.ts has no task for the template ${template}`);
  return found[0];
}
