/** A problem that the author of a workspace can repair; the message names it. */
export class WorkspaceProblem extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'WorkspaceProblem';
  }
}
