/** The media types of the forms of CloudEvents that have attributes in the body. */
export const STRUCTURED_TYPE = 'application/cloudevents+json';
export const BATCHED_TYPE = 'application/cloudevents-batch+json';
