/** What the author of a workspace can change; the message names it. */
export class WorkspaceProblem extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'WorkspaceProblem';
  }
}
