/** The delivery of a deployment that started a run. */
export interface RunTrigger {
  /** The name of the deployment. */
  readonly deployment: string;
  /** The number of its version. */
  readonly version: number;
  /** The id of the delivery. */
  readonly delivery: string;
}
