//! Coding and decoding give the same results with and without an arena.

mod clips;

use clips::{Content, picture};
use lockstep_vp8::{
    Analysis, Arena, DEFAULT_PIXEL_LIMIT, Effort, Encoded, Parameters, Picture, State, decode, decode_in,
};

/// Pictures with motion, of changing sizes.
fn pictures() -> Vec<Picture> {
    let sizes = [(96, 80), (96, 80), (96, 80), (50, 34), (50, 34), (160, 112), (160, 112), (96, 80)];
    (0..).zip(sizes).map(|(index, (width, height))| picture(Content::Pan, width, height, index, 3)).collect()
}

#[test]
fn frames_and_states_do_not_depend_on_the_arena() {
    let arena = Arena::default();
    // Decoding into a second arena, and keeping some results, reuses memory in another order.
    let other = Arena::default();
    let mut kept = Vec::new();
    let (mut inside, mut outside) = (State::default(), State::default());
    for (index, picture) in pictures().iter().enumerate() {
        let parameters = Parameters::default();
        let within = Analysis::new_in(&arena, &inside, picture, &parameters);
        let without = Analysis::new(&outside, picture, &parameters);
        let candidates = [20, 50, 90].map(|quantizer| {
            let [a, b] = [&within, &without].map(|analysis| analysis.encode(quantizer));
            assert_eq!((&a.frame, a.state.id(), a.statistics), (&b.frame, b.state.id(), b.statistics));
            [a, b]
        });
        for [a, _] in &candidates {
            let decoded = decode_in(&other, &inside, &a.frame, DEFAULT_PIXEL_LIMIT).unwrap();
            assert_eq!(decoded, decode(&inside, &a.frame).unwrap());
            assert_eq!(decoded.0, a.state);
            if index % 2 == 0 {
                kept.push((a.picture(), decoded));
            }
        }
        let [_, [a, b], _] = candidates;
        (inside, outside) = (a.state, b.state);
    }
    for (coded, (state, shown)) in kept {
        assert_eq!(coded, shown, "a picture changed while it was held");
        assert_eq!(state.last_picture(), Some(shown));
    }
}

#[test]
fn candidates_on_several_threads_share_an_arena() {
    let arena = Arena::default();
    let mut state = State::default();
    for picture in pictures() {
        let analysis = Analysis::new_in(&arena, &state, &picture, &Parameters::default());
        let alone: Vec<Encoded> = [30, 60, 100].map(|quantizer| analysis.encode(quantizer)).into();
        let together: Vec<Encoded> = std::thread::scope(|scope| {
            let jobs = [30, 60, 100].map(|quantizer| {
                scope.spawn({
                    let analysis = &analysis;
                    move || analysis.encode(quantizer)
                })
            });
            jobs.into_iter().map(|job| job.join().unwrap()).collect()
        });
        for (a, b) in alone.iter().zip(&together) {
            assert_eq!((&a.frame, &a.state), (&b.frame, &b.state));
        }
        state = together.into_iter().next().unwrap().state;
    }
}

#[test]
fn lazy_states_do_not_depend_on_time_or_thread_of_access() {
    fn value<T: Clone + Send + Sync + std::panic::UnwindSafe>(value: T) -> T {
        value
    }
    let (arena, mut state) = (Arena::default(), State::default());
    let mut late = Vec::new();
    for picture in pictures() {
        let analysis = Analysis::new_in(&arena, &state, &picture, &Parameters::default());
        let [kept, dropped, sent] = [30, 60, 100].map(|quantizer| value(analysis.encode(quantizer)));
        drop(dropped);
        // This candidate's picture is computed only after others were coded in the same arena.
        late.push((state.clone(), kept.clone(), kept));
        state = sent.state;
    }
    drop(arena);
    std::thread::scope(|scope| {
        for (before, a, b) in &late {
            let read = |encoded: &Encoded| (encoded.state.id(), encoded.picture());
            let both = [scope.spawn(move || read(a)), scope.spawn(move || read(b))].map(|job| job.join().unwrap());
            let (decoded, shown) = decode(before, &a.frame).unwrap();
            assert_eq!(both, [(decoded.id(), shown.clone()), (decoded.id(), shown)]);
        }
    });
}

#[test]
fn states_and_pictures_outlive_their_arena() {
    let picture = picture(Content::Pan, 64, 48, 0, 3);
    let arena = Arena::default();
    let encoded = Analysis::new_in(&arena, &State::default(), &picture, &Parameters::default()).encode(40);
    drop(arena);
    assert_eq!(decode(&State::default(), &encoded.frame).unwrap().1, encoded.picture());
    assert_eq!(State::from_bytes(&encoded.state.to_bytes()), Ok(encoded.state));
}

#[test]
fn frames_do_not_depend_on_the_number_of_threads() {
    // The smallest picture that two threads code, a wide one, and one whose columns are no multiple of a batch.
    for (content, width, height) in
        [(Content::Camera, 640, 480), (Content::Patches, 1600, 200), (Content::Objects, 400, 770)]
    {
        let pictures: Vec<Picture> = (0..3).map(|index| picture(content, width, height, index, 5)).collect();
        for effort in Effort::all().step_by(3) {
            let parameters = Parameters { effort, ..Parameters::default() };
            let coded = [1, 2, 5].map(|threads| {
                let arena = Arena::with_threads(threads);
                let mut state = State::default();
                let mut frames = Vec::new();
                for picture in &pictures {
                    let analysis = Analysis::new_in(&arena, &state, picture, &parameters);
                    let menu = analysis.menu(&[30, 36]);
                    let fitted = analysis.encode_to_fit(menu[1].frame.len() * 4 / 5);
                    frames.extend(menu.iter().chain([&fitted]).map(|coded| (coded.frame.clone(), coded.state.id())));
                    state = fitted.state;
                }
                frames
            });
            assert!(coded[0] == coded[1] && coded[0] == coded[2], "{content:?} {width}x{height} {effort:?}");
        }
    }
}
