"""What tests/golden/coverage.py cannot read from the headers: other spellings, PyTorch's internals, and differences."""

# Names of torch that are no functions for users, serve dtypes or backends that do not exist here, or work in place.
noise = (r".*_$|(get|set)_(?!rng_state|num_threads).*|(?!index_).*_copy$|.*_scatter|(is|sym|mkldnn|cudnn|miopen|quantized|fbgemm|fake_quantize|native|unsafe|parse|import|init|"
         r"autocast|q|choose|fused|unify|merge|use|prepare|profiler|clear|from|to|wait|has|handle|assert|boolean|enforce)_.*|"
         r"batch_norm_.*|.*_indices(_copy)?|.*_tensor|.*with_indices|quantize.*|(lstm|gru|rnn).*|are_deterministic.*|hs..|hspmm|dsmm|"
         r"s[as]?p?add?mm|smm|spmm|complex|imag|real|angle|polar|conj.*|.*conj|resolve.*|view_as.*|isreal|alias.*|as_strided.*|"
         r"compiled_with.*|classproperty|cond|while_loop|fork|typename|can_cast|conv_tbc|convolution|grid_sampler.*|"
         r"affine_grid_generator|constant_pad_nd|int_repr|dequantize|int_.*|segment_reduce|resize.*|seed|initial_seed|"
         r"thread_safe.*|embedding_renorm|feature_dropout|hash_.*|lobpcg|norm_except_dim|rsub|scaled_(mm|addmm|grouped_mm)|grouped_mm|"
         r"thread.*|wait|result_type|promote_types|range|symeig|eig|solve|lstsq|matrix_rank|chain_matmul|lu.*|geqrf|orgqr|ormqr|"
         r"Container|DataParallel|NLLLoss2d|RNNBase|RNNCellBase|Lazy.*|CrossMapLRN2d|SyncBatchNorm|upsample.*|multi_head_attention_forward|"
         r".*_ex|common_notes|LinAlgError|empty_.*strided|empty_permuted|empty_quantized|frobenius_norm|nuclear_norm|nonzero_static|slice_inverse|"
         r"[lw]stsq|ldl_.*|split_with_sizes|broadcast_shapes|Module|ScalingType|SwizzleType|ger|asarray|Optional|frombuffer")

spelled = {
    "Tensor": {
        "T": "`transpose(x)` of a matrix, `x.t()`", "H": "`transpose(x)`", "mH": "`transpose(x)`", "shape": "`x.sizes()`; by name `x.sizes<4>()`", "ndim": "`x.dim()`", "ndimension": "`x.dim()`",
        "nelement": "`x.numel()`", "element_size": "`size_of(x.dtype())`", "itemsize": "`size_of(x.dtype())`", "is_floating_point": "`x.is_floating()`",
        "is_cuda": "`x.device()`: its is_cuda()", "is_cpu": "`x.device()`: its is_cpu()", "float": "`x.to(f32)`", "double": "`x.to(f64)`",
        "half": "`x.to(f16)`", "bfloat16": "`x.to(bf16)`", "long": "`x.to(i64)`", "int": "`x.to(i32)`", "byte": "`x.to(u8)`", "bool": "`x.to(boolean)`",
        "type": "`x.to(dtype)`", "type_as": "`x.to(y.dtype())`", "cpu": "`x.to(cpu)`", "cuda": "`x.to(cuda)`",
        "numpy": "`x.to_vector<float>()`, a copy; `x.data<float>()`, the elements", "tolist": "`x.to_vector<float>()`",
        "data_ptr": "`x.raw_data()`; `x.data<float>()`", "untyped_storage": "`x.storage()`", "data": "`x.detach()`",
        "view_as": "`x.view(y.sizes())`", "reshape_as": "`x.reshape(y.sizes())`", "expand_as": "`x.expand(y.sizes())`", "sum_to_size": "`sum_to(x, sizes)`",
        "new_zeros": "`zeros(sizes, {.dtype = x.dtype(), .device = x.device()})`", "new_ones": "`ones(sizes, {.dtype = x.dtype(), .device = x.device()})`",
        "new_full": "`full(sizes, value, {.dtype = x.dtype(), .device = x.device()})`", "new_empty": "`empty(sizes, {.dtype = x.dtype(), .device = x.device()})`",
        "new_tensor": "`tensor({1, 2}, {.dtype = x.dtype(), .device = x.device()})`",
        "is_same_size": "`x.sizes() == y.sizes()`", "indices": "of what gives values and indices, a member", "values": "the same",
        "register_hook": "`x.on_grad(hook)`", "detach_": "`x.detach()`", "index_put_": "`index_put_(x, {rows}, y)`, a function",
        "uniform_": "`uniform_(x, low, high)`, a function; `nn::init::uniform_`", "normal_": "`normal_(x, mean, std)`, a function; `nn::init::normal_`",
        "scatter_": "`x.copy_(scatter(x, dim, index, source))`", "scatter_add_": "`x.copy_(scatter_add(x, dim, index, source))`",
        "index_add_": "`x.copy_(index_add(x, dim, index, source))`", "exp_": "`x.copy_(exp(x))`, and so all others in place",
    },
    "boxes": {
        "RoIAlign": "`roi_align`", "PSRoIAlign": "`ps_roi_align`", "Permute": "`permute`, in a `Sequential` as a function", "MLP": "a `Sequential` of its layers",
        "Conv2dNormActivation": "a `Sequential` of its layers", "Conv3dNormActivation": "a `Sequential` of its layers",
        "FrozenBatchNorm2d": "`BatchNorm2d`, after nn::eval and with parameters that require no gradient",
    },
    "complex": {
        "complex": "`to_complex`", "view_as_real": "the tensor itself", "view_as_complex": "the tensor itself", "real": "`real`", "imag": "`imag`", "conj": "`complex_conj`",
        "abs": "`complex_abs`", "angle": "`complex_angle`", "polar": "`to_complex(r * cos(phi), r * sin(phi))`", "mul": "`complex_mul`",
    },
    "torch": {
        "stft": "`stft`, with real and imaginary part as the last dimension", "istft": "`istft`, of the same",
        "absolute": "`abs`", "arccos": "`acos`", "arccosh": "`acosh`", "arcsin": "`asin`", "arcsinh": "`asinh`", "arctan": "`atan`",
        "arctan2": "`atan2`", "arctanh": "`atanh`", "adjoint": "`transpose`", "moveaxis": "`movedim`", "row_stack": "`vstack`", "sgn": "`sign`",
        "compile": "`jit::fuse` for elementwise functions, `jit::capture` for whole steps on a GPU", "vmap": "`vmap(f)(x)`, which calls f for one example after the other", "msort": "`sort`, along dim 0", "vdot": "`dot`", "fill": "`full_like`; `fill_` in place", "positive": "the tensor itself",
        "clip": "`clamp`, under this name, too", "concat": "`cat`", "concatenate": "`cat`", "divide": "`div`", "true_divide": "`div`", "fix": "`trunc`",
        "greater": "`gt`", "greater_equal": "`ge`", "less": "`lt`", "less_equal": "`le`", "not_equal": "`ne`", "multiply": "`mul`",
        "negative": "`neg`", "subtract": "`sub`", "mm": "`mm`, or `matmul`", "t": "`t()`, a method", "swapaxes": "`transpose`", "swapdims": "`transpose`",
        "ravel": "`flatten`", "trapz": "`trapezoid`", "inverse": "`inv`", "pinverse": "`pinv`", "triangular_solve": "`solve_triangular`",
        "max": "`max(x, dim)`; `x.max()` of all; `max(a, b)` of two tensors is `maximum`", "min": "`min(x, dim)`; `x.min()` of all; `min(a, b)` of two tensors is `minimum`",
        "index_select": "`index_select`", "tensor": "`tensor`, `from_data`; `from_blob` of memory that is not copied", "softmax": "`softmax`",
        "get_rng_state": "`rng_state`", "set_rng_state": "`set_rng_state`", 
        "argwhere": "`nonzero`", "detach": "`detach()`, a method", "numel": "`numel()`, a method", "from_numpy": "`from_data` copies, `from_blob` does not",
        "save": "`save_safetensors`; `nn::save` of a module; `save_checkpoint`", "load": "`io::load_torch`, which reads its files; `load_safetensors`; `nn::load` of either into a module; `load_checkpoint`",
        "is_tensor": "every tensor is a `Tensor`", "get_num_threads": "`num_threads`", "set_num_threads": "`set_num_threads`", "embedding_bag": "`embedding_bag`, whose offsets end with the number of indices; `EmbeddingBag`, a module",
    },
    "F": {
        "embedding_bag": "`embedding_bag`, whose offsets end with the number of indices; `EmbeddingBag`, a module",
    },
    "linalg": {
        "vector_norm": "`norm`", "matmul": "`matmul`", "diagonal": "`diagonal`, with dims -2 and -1", "vecdot": "`sum(x * y, {-1})`",
        "norm": "`norm`, of vectors; `matrix_norm`", "cross": "`cross`",
        "matrix_norm": "`matrix_norm`", "matrix_power": "`matrix_power`",
        "eig": "`eig`, with pairs for complex numbers", "eigvals": "`eigvals`, the same", "eigh": "`eigh`", "eigvalsh": "`eigvalsh`", "svd": "`svd`, as with full_matrices=False", "svdvals": "`svdvals`", "pinv": "`pinv`", "matrix_rank": "`matrix_rank`",
        "inv": "`inv`", "det": "`det`", "slogdet": "`slogdet`", "solve": "`solve`", "solve_triangular": "`solve_triangular`",
        "cholesky": "`cholesky`", "multi_dot": "`multi_dot`", "vander": "`vander(x, n, true)`",
        "qr": "`qr`", "lu": "`lu`, of square matrices", "lu_factor": "`lu_factor`, of square matrices", "lu_solve": "`lu_solve`", "lstsq": "`lstsq`, the solution alone",
        "cond": "`cond`", "matrix_exp": "`matrix_exp`", "householder_product": "`householder_product`", "tensorinv": "`tensorinv`", "tensorsolve": "`tensorsolve`",
        "polar": "`polar`",
    },
    "special": {
        "expit": "`sigmoid`", "gammaln": "`lgamma`", "gammainc": "`igamma`", "gammaincc": "`igammac`", "multigammaln": "`mvlgamma`", "psi": "`digamma`",
        "modified_bessel_i0": "`i0`", "modified_bessel_i1": "`i1`",
    },
    "nn": {
        "Parameter": "`Param`", 
        "UpsamplingNearest2d": "`Upsample`", "UpsamplingBilinear2d": "`Upsample{{.mode = \"bilinear\", .align_corners = true}}`",
    },
    "init": {
    },
    "utils": {
        "weight_norm": "`nn::weight_norm(layer)`, a `Parametrized` layer with a `WeightNorm`, as that of nn.utils.parametrizations",
        "spectral_norm": "`nn::spectral_norm(layer)`, a `Parametrized` layer with a `SpectralNorm`, as that of nn.utils.parametrizations",
        "remove_weight_norm": "`Parametrized`: its method remove()", "remove_spectral_norm": "`Parametrized`: its method remove()",
    },
    "rnn": {
        "PackedSequence": "a padded tensor and its lengths", "pack_padded_sequence": "`LSTM`, `GRU` and `RNN` take the lengths of padded sequences as their last argument",
        "pad_packed_sequence": "`LSTM`, `GRU` and `RNN` give padded sequences", "pack_sequence": "`pad_sequence`, and the lengths",
        "unpad_sequence": "`narrow` of each", "invert_permutation": "`argsort`",
    },
    "language": {
        "generate": "`nn::generate` with any module or function from tokens and cache to logits", "num_beams": "`nn::beam_search`, with its `BeamSearchOptions`",
        "past_key_values": "`nn::KvCache`; attention is `nn::causal_attention`",
        "TopKLogitsWarper": "`nn::sample` and its `SampleOptions`", "MinPLogitsWarper": "`nn::sample` and its `SampleOptions`", "RepetitionPenaltyLogitsProcessor": "`penalize_repetitions`",
        "TopPLogitsWarper": "`nn::sample` and its `SampleOptions`",
        "ByteLevelBPETokenizer": "`data::Bpe`, from `data::load_bpe(folder)`, which reads tokenizer.json, SentencePiece's too, or vocab.json and merges.txt",
        "BpeTrainer": "`data::train_bpe(text, size)`",
    },
    "optim": {},
    "schedule": {},
    "swa": {"AveragedModel": "`Ema`, `Swa`", "update_bn": "`nn::update_bn`"},
    "grad": {
        "no_grad": "`NoGrad`, a scope", "enable_grad": "`EnableGrad`, a scope", "detect_anomaly": "`AnomalyMode`, a scope", "autocast": "`autocast(f16, [&] { ... })`, or `Autocast`, a scope",
        "Function": "a struct with forward and backward, of one result or several, see ops/function.h; for a new kernel an operator, see ops/op.h",
        "inference_mode": "`InferenceMode`, a scope", "functional_call": "`functional_call(net, tensors, x)`",
    },
    "distributions": {
        "OneHotCategoricalStraightThrough": "`OneHotCategorical`, by its rsample",
    },
    "audio": {
        "AmplitudeToDB": "`AmplitudeToDB`", "Resample": "`resample`", "InverseSpectrogram": "`istft`", "load": "`load_wav`", "save": "`save_wav`",
    },
    "device": {
        "is_available": "`cuda_is_available`", "device_count": "`cuda_device_count`", "get_device_name": "`device_properties`", "get_device_capability": "`device_properties`",
        "get_device_properties": "`device_properties`", "mem_get_info": "`device_properties`", "is_bf16_supported": "on every GPU that can be used: sm_80 and later",
        "set_device": "there is no current device, each tensor names its own; `default_device` is the first GPU, or the CPU", "current_device": "likewise",
        "device": "likewise", "Stream": "`DeviceStream`", "ExternalStream": "`external_stream`", "stream": "`OnStream`, a scope", "set_stream": "`OnStream`, a scope",
        "record_stream": "`record_stream(x, stream)`", "Event": "`DeviceEvent`", "memory_allocated": "`memory_stats`", "max_memory_allocated": "`memory_stats`",
        "memory_reserved": "`memory_stats`", "max_memory_reserved": "`memory_stats`", "set_per_process_memory_fraction": "`set_memory_limit`, in bytes, of the CPU as well",
        "OutOfMemoryError": "`OutOfMemory`", "pin_memory": "not needed: what is copied to a GPU goes through pinned memory, and the host does not wait for it",
        "CUDAGraph": "`capture`, which warms up and records by itself", "graph": "`capture`", "make_graphed_callables": "`capture`",
        "is_current_stream_capturing": "`is_recording`", "get_rng_state": "`rng_state`, of all devices", "nvtx": "every launch is named",
        "set_float32_matmul_precision": "`allow_tf32`", "use_deterministic_algorithms": "always: no sum depends on the order of threads; MANTISSA_TUNER=off also makes every run choose the same kernels",
        "cudnn.benchmark": "always: kernels and cuDNN's plans are timed for each shape, and the choice can be kept on disk",
    },
    "profiler": {
        "profile": "`Profile`", "record_function": "`ProfileRange`, a scope", "schedule": "a `Profile` made and stopped at the steps wanted",
        "key_averages": "the table of a `Profile`", "export_chrome_trace": "`save_trace`", "profile_memory": "`ProfileOptions`: memory",
        "record_shapes": "`ProfileOptions`: shapes", "with_flops": "`ProfileOptions`: flops, or `FlopCounter`",
    },
    "data": {
        "DataLoader": "`Pipeline`, as in `mnist().shuffle().batch(128)`, or `Loader`; with a collate_fn `BatchLoader`", "Dataset": "`Dataset` of tensors, or a `Source` of your own",
        "TensorDataset": "`Dataset{.images = x, .labels = y}`", "RandomSampler": "`shuffle()`, `RandomSampler`", "SequentialSampler": "the default; `SequentialSampler`",
        "Subset": "`subset`", "random_split": "`random_split`", "IterableDataset": "a function that returns the next item, read ahead by a `StreamLoader`; `shuffled`, `batched` and `mapped`", "BatchSampler": "`batch()`, `BatchSampler`", "Sampler": "`Sampler`",
        "WeightedRandomSampler": "`WeightedRandomSampler`", "SubsetRandomSampler": "`SubsetRandomSampler`", "default_collate": "`read_batch`",
        "ConcatDataset": "`concat`",
    },
    "distributed": {
        "DistributedDataParallel": "`nn::DataParallel`, an object beside the net, which is called, saved and loaded as before",
        "DistributedSampler": "`shard(rank, size)`, a step of the `Pipeline`; `DistributedSampler`", "torchrun": "the program mantissa_run",
        "SyncBatchNorm": "`nn::sync_batch_norm(net)`, of a whole net: its batch norms keep their types and names",
        "init_process_group": "`world()` by itself, from the same variables; `make_group(options)`", "destroy_process_group": "the end of the program, or of a `ProcessGroup`",
        "get_rank": "`world().rank()`", "get_world_size": "`world().size()`", "get_node_local_rank": "`local_rank()`",
        "ProcessGroup": "`ProcessGroup`", "ReduceOp": "sum, mean, max and min of `all_reduce(x, op)`", "Work": "`Work`, of `start_all_reduce`", "TCPStore": "`TcpStore`",
        "barrier": "`barrier()`, a method", "monitored_barrier": "`barrier()`: every call names the rank that does not come", "broadcast": "`broadcast(x, root)`, a method",
        "all_reduce": "`all_reduce(x, ReduceOp::mean)`, a method", "all_reduce_coalesced": "`all_reduce(tensors)`",
        "all_gather": "`all_gather(x)`, one tensor [size, ...]", "all_gather_into_tensor": "`all_gather(x)`",
        "reduce_scatter": "`reduce_scatter(x)`", "reduce_scatter_tensor": "`reduce_scatter(x)`",
        "reduce": "`reduce(x, op, root)`, a method", "gather": "`gather(x, root)`, one tensor [size, ...]", "scatter": "`scatter(x, parts, root)`",
        "all_gather_object": "`all_gather(text)` of a string", "gather_object": "`all_gather(text)`", "broadcast_object_list": "`broadcast(text)`, in place", "new_group": "`split(color)`, as MPI_Comm_split", "init_device_mesh": "`split(color)`, once for each dim", "all_to_all": "`all_to_all(x)` of one tensor [size, ...]", "all_to_all_single": "`all_to_all(x)`, in equal parts",
        "send": "`send(x, to)`, a method", "recv": "`receive(x, from)`", "isend": "`exchange(sends, receives)`, all at once", "irecv": "`exchange(sends, receives)`",
        "batch_isend_irecv": "`exchange(sends, receives)`", "ZeroRedundancyOptimizer": "`shard` in the `MemoryOptions` of every optimizer but LBFGS",
    },
    "vision": {
        "AugMix": "`aug_mix`", "AutoAugment": "`auto_augment`", "CenterCrop": "`center_crop`", "ColorJitter": "`color_jitter`",
        "Compose": "the steps of a `Pipeline`", "ConvertImageDtype": "`to_float`", "CutMix": "`cutmix`", "ElasticTransform": "`random_elastic`",
        "FiveCrop": "`five_crop`", "GaussianBlur": "`gaussian_blur`", "GaussianNoise": "`gaussian_noise`", "JPEG": "`random_jpeg`", "LinearTransformation": "`linear_transformation`", "RandomShortestSize": "`random_shorter_side`, one size for each batch", "Grayscale": "`grayscale`",
        "Lambda": "a function as a step of the `Pipeline` (map), or a `Transform`", "MixUp": "`mixup`", "Normalize": "`normalize`", "Pad": "`pad`", "RGB": "`grayscale(3)`",
        "RandAugment": "`rand_augment`", "RandomAdjustSharpness": "`random_adjust_sharpness`", "RandomAffine": "`random_affine`",
        "RandomApply": "`random_apply`", "RandomAutocontrast": "`random_autocontrast`",
        "RandomChannelPermutation": "`random_channel_permutation`", "RandomChoice": "`random_choice`", "RandomCrop": "`random_crop`",
        "RandomEqualize": "`random_equalize`", "RandomErasing": "`random_erasing`", "RandomGrayscale": "`random_grayscale`",
        "RandomHorizontalFlip": "`random_flip`", "RandomInvert": "`random_invert`", "RandomOrder": "`random_order`",
        "RandomPerspective": "`random_perspective`", "RandomPhotometricDistort": "`random_photometric_distort`",
        "RandomPosterize": "`random_posterize`", "RandomResize": "`random_resize`, one size for each batch",
        "RandomResizedCrop": "`random_resized_crop`", "RandomRotation": "`random_rotation`", "RandomSolarize": "`random_solarize`",
        "RandomVerticalFlip": "`random_vertical_flip`", "Resize": "`resize`, `resize_shorter_side`",
        "ScaleJitter": "`scale_jitter`, one scale for each batch", "TenCrop": "`ten_crop`", "ToTensor": "`to_float`", "ToDtype": "`to_float`, `Pipeline::dtype`",
        "Transform": "`Transform`", "TrivialAugmentWide": "`trivial_augment_wide`",
        "ClampBoundingBoxes": "`moved_targets`, which every step that moves boxes calls",
        "ConvertBoundingBoxFormat": "`box_convert`",
        "RandomIoUCrop": "`random_iou_crop`, resized to one size for the batch",
        "RandomZoomOut": "`random_zoom_out`, resized to the image's size",
        "SanitizeBoundingBoxes": "`moved_targets`, likewise",
        "SanitizeKeyPoints": "`moved_targets`, likewise: points outside are not visible",
    },
    "datasets": {
        "MNIST": "`mnist()`", "FashionMNIST": "`fashion_mnist()`", "KMNIST": "`load_idx_folder(dir, name, split)`", "QMNIST": "the same, of its files under MNIST's names", "CIFAR10": "`cifar10()`", "CIFAR100": "`cifar100()`",
        "ImageFolder": "`image_folder()`, with `random_crop` a random window of the whole picture", "VisionDataset": "`Source`", "FakeData": "`synthetic_digits()`, `synthetic_color_digits()`",
        "CocoDetection": "`coco_detection()`",
    },
}

# Why what a section does not cover is not covered.
reasons = {
    "device": "Readings of a GPU's sensors are nvidia-smi's. Tensors of two GPUs of one process copy to each other; training on several takes a "
              "process for each.",
    "profiler": "Times on the device come from events around each operator (`core/profile.h`), not from the driver's record of kernels: NVTX names "
                "every launch for Nsight Systems, which has that.",
    "distributed": "Ranks train copies of one net, of all ranks or of some (`split`); no parameters that are cut up between ranks, no calls of "
                   "functions elsewhere. What is sent is tensors and strings: objects of the language are not.",
    "linalg": "Systems of equations and decompositions are Mantissa's own kernels, for thousands of rows or thousands of small matrices, on a GPU as "
              "well; only `eig` is computed on the host there. "
              "The names with _ex say by a tensor what those without say by an exception.",
    "distributions": "`kl_divergence` has PyTorch's pairs but those that are infinite whatever the parameters, and those of `TransformedDistribution`. Of "
                     "transforms there are `AffineTransform`, `ExpTransform`, `PowerTransform`, `SigmoidTransform`, `TanhTransform`, `SoftplusTransform`, "
                     "`StickBreakingTransform` and the `Inverse` of each. Gradients go through draws of `Gamma` and its kin once, not twice, as in PyTorch.",
    "audio": "Files are .wav. What changes a sound's pitch or speed and keeps the other, filters as SoX has them, and reading of compressed files are missing.",
    "data": "A `Source` needs a size and `read(i)`, so that an epoch is a function of seed and epoch and a run can resume "
            "anywhere; what has no size is a stream (`data/stream.h`), which is read once. A corpus of tokens that memory does not hold is a "
            "`TokenFile` (`data/token_file.h`: nanoGPT's and llm.c's files).",
    "Tensor": "Not recorded is all that works in place (`core/tensor.h`); what is to be differentiated takes the result, `x = scatter(x, dim, index, y)`. `+=` does not "
              "compile for that reason.",
    "boxes": "Boxes are plain tensors of the forms `xyxy`, `xywh` and `cxcywh` (`nn/boxes.h`, `nn/roi_align.h`). From `torchvision.models.detection` there are "
             "`AnchorGenerator`, `BoxCoder`, `match_boxes` (there `Matcher`) and `balanced_sample` (`nn/anchors.h`). Pooling of regions without interpolation is missing: "
             "`roi_align` took its place.",
    "vision": "Targets that are masks, u8 or i64 [N, H, W], or pictures, f32 [N, C, H, W], move with their images (`data/pixel_targets.h`), as with "
              "`tv_tensors.Mask`, and so do boxes, f32 [N, M, 5], and points (`data/box_targets.h`), as with `BoundingBoxes` and `KeyPoints`. Transforms of videos "
              "and Pillow's images do not exist; a decoder's pictures are tensors. `Identity` is no step. "
              "Interpolation is nearest or bilinear.",
    "datasets": "Pictures in folders, one for each class, are read by `image_folder()`: ImageNet, Imagenette, EuroSAT and more; pictures and their masks, as "
                "those of `VOCSegmentation` and `OxfordIIITPet`, by `mask_folder()`; pictures and boxes in COCO's format by `coco_detection()`. Nothing fetches "
                "them; MNIST's and CIFAR's kin come by `scripts/download.sh`.",
    "optim": "`SparseAdam` updates the rows of an embedding that a batch touched, from a sparse gradient. Gradients of `Embedding` are dense "
             "tensors here, so it would be `Adam` with a mask; `Adam` and `Adagrad` take dense gradients.",
}

# Operators without a name in PyTorch's public namespaces.
ours_alone = {
    "adaptive_max_pool1d_with_indices": "`F.adaptive_max_pool1d(..., return_indices=True)`",
    "adaptive_max_pool2d_with_indices": "`F.adaptive_max_pool2d(..., return_indices=True)`",
    "adaptive_max_pool3d_with_indices": "`F.adaptive_max_pool3d(..., return_indices=True)`",
    "conv3d_input_grad": "`torch.nn.grad.conv3d_input`",
    "fractional_max_pool2d_with_indices": "`F.fractional_max_pool2d(..., return_indices=True)`",
    "fractional_max_pool3d_with_indices": "`F.fractional_max_pool3d(..., return_indices=True)`",
    "masked_scatter": "a method there",
    "linear_recurrence": "the states of a state-space model or filter, `y[i] = a[i] * y[i - 1] + b[i]`, with gradients",
    "max_pool1d_with_indices": "`F.max_pool1d(..., return_indices=True)`",
    "max_pool2d_with_indices": "`F.max_pool2d(..., return_indices=True)`",
    "max_pool3d_with_indices": "`F.max_pool3d(..., return_indices=True)`",
    "tril_indices": "`torch.tril_indices`",
    "triu_indices": "`torch.triu_indices`",
    "cast": "`x.to(dtype)` there, and `x.to(dtype)` here as well",
    "add_layer_norm": "`F.layer_norm(x + delta, ...)`, and the sum; ONNX Runtime's `SkipLayerNormalization`. Under autocast with an "
    "f32 sum its y has the region's dtype, as that of `add_rms_norm`, where `F.layer_norm` and `layer_norm` give f32 (`docs/amp.md`)",
    "add_rms_norm": "`F.rms_norm(x + delta, ...)`, and the sum; `fused_add_rms_norm` in vLLM",
    "feed_forward": "`F.linear(gelu(F.linear(x, w1, b1)), w2, b2)` in one, also with relu; apex has it as `FusedDenseGeluDense`",
    "batch_norm_relu": "`relu(batch_norm(x) + z)` in one; apex has it as `BatchNorm2d_NHWC(fuse_relu=True)`",
    "channels_last": "`x.contiguous(memory_format=torch.channels_last)`, and of volumes `torch.channels_last_3d`; "
    "a net's weights: `nn::to(net, Layout::channels_last)`",
    "contiguous": "a method there; here both",
    "conv2d_input_grad": "`torch.nn.grad.conv2d_input`",
    "conv2d_relu": "`relu(conv2d(...))` in one; the module is `torch.ao.nn.intrinsic.ConvReLU2d`",
    "conv3d_relu": "the same for `ConvReLU3d`",
    "expand": "a method there; here both",
    "index": "indexing with tensors, `x[i, j]`",
    "repeat": "a method there",
    "rotary_embedding": "rotary position embedding (Su et al., 2021); compared with its definition",
    "slice": "indexing with a range",
    "sum_to": "`x.sum_to_size`",
}

differences = [
    "Of distributions: PyTorch's mode of `Kumaraswamy` is NaN, and so are mean and variance of `GeneralizedPareto` where they are infinite; its "
    "`ContinuousBernoulli` draws with probs from 0.499 to 0.501 as with 0.5; its Bessel functions in `VonMises` have seven digits; its mode of a `Dirichlet` with no "
    "concentration above 1 is one of the corners, ours NaN.",
    "Transforms of u8 pictures: `gaussian_blur`, `resize`, `grayscale` and bilinear interpolation round to the nearest, where torchvision cuts "
    "`grayscale` off; a pixel that lies partly outside takes that part of `fill`, where torchvision counts the outside twice.",
    "Pictures that are made one pixel wide by `interpolate(antialias=True)` or `resize`: PyTorch 2.15 repeats the first row of floating pictures whose channels lie in planes; ours is the filter, as PyTorch's is for channels-last images.",
    "A mask without dimensions, `x[torch.tensor(True)]`, is refused; index the condition's tensor with `where` or `masked_fill`.",
    "`hardshrink` and `softshrink` pass the gradient where the input is NaN; in PyTorch it depends on the dtype and the tensor's size.",
    "`softsign` has the gradient 0 at infinity; PyTorch gives NaN.",
    "`binary_cross_entropy` at x = 0 and 1: PyTorch's bound of the derivative, 1e-12, is rounded to f32, also in f64; ours is exact.",
    "A query of `scaled_dot_product_attention` and `nn::MultiheadAttention` that may look at nothing gets zeros; PyTorch's modules give NaN.",
    "`hardsigmoid`: PyTorch's derivative multiplies by 1 / 6 rounded to f32, also in f64; ours is exact.",
    "`celu`: PyTorch divides by an alpha rounded to f32, also in f64; ours is exact.",
    "`clip_grad_norm_` computes the norm in f32, also for f64 gradients.",
    "`median(x)` and `nanmedian(x)` of all elements give the gradient to one of equal medians; in PyTorch they share it.",
    "`mse_loss`, `l1_loss`, `smooth_l1_loss` and `huber_loss` let the target broadcast, and refuse one that would repeat x; PyTorch warns.",
    "`amax`, `amin`, `max(x)` and `min(x)` of all elements give NaN as gradient everywhere where the result is NaN, as PyTorch's `amax`; "
    "PyTorch's `max(x)` gives it to the elements that are NaN.",
    "`quantile` and `nanquantile` give an infinite element where it is exactly the quantile; PyTorch interpolates to NaN.",
    "`det` and `slogdet` of a singular matrix have no gradient: backward throws. PyTorch has one for `det`.",
    "`cond` has gradients for every norm; PyTorch's fail for all but 2, -2 and the nuclear one.",
    "`lu` and `lu_factor` of a singular matrix do not throw; PyTorch's `lu_factor` does.",
    "`norm`, `cdist` and `pdist` with p = 0 have a gradient, 0; PyTorch's `norm` has none.",
    "`i0` and `i1` are infinite at infinity, `bessel_j0` and `bessel_j1` 0, where PyTorch says NaN; the gradient of `entr` is 0 at 0 and below.",
    "`igamma` and `igammac` have a gradient to `a`, too; `hypot` has the gradient 0 at the origin, and `logaddexp` shares it between equal infinities.",
    "`signbit` and `copysign` take every NaN for positive: the sign of a computed NaN says nothing.",
    "`matmul` and `linear` of integers are refused, as by PyTorch on a GPU; on a CPU PyTorch computes them. `dot` takes integers.",
    "`grad` applies the hooks of its inputs to what it returns; PyTorch does so only where the input leads to no other input.",
    "`ConstantLR` with `total_iters` 0 leaves the rate alone, as PyTorch's closed form; PyTorch's step by step multiplies it for ever.",
    "`OneCycleLR` keeps its last rate in the step after the last; PyTorch's formula goes on, with `linear` below 0.",
    "Denormal numbers count as 0 on the CPU, as after `torch.set_flush_denormal(True)`; `set_flush_denormals(false)` keeps them.",
    "Losses of tensors of unlike floating dtypes have the wider one; those of PyTorch that do not promote have that of one of them.",
    "`ctc_loss`: the gradient is that of the log-probabilities as they are; PyTorch's supposes that they come from `log_softmax`. Behind "
    "one both give the same.",
    "`eigh`: gradients agree in their symmetric part, which is what reaches whatever a symmetric matrix was made of; the rest differs.",
    "`interpolate` with a `scale_factor` that leaves a dimension as long as it was still moves its samples; PyTorch's CPU copies them in "
    "linear modes, and in nearest ones takes the gradient of a copy.",
    "`soft_margin_loss` of large numbers does not overflow, and `logcumsumexp` of -infinity has a gradient, where PyTorch gives infinity and NaN.",
    "`GradScaler::unscale_` refuses an optimizer without any gradient; in PyTorch the `step` that follows does.",
    "`NAdam` keeps the product of its momenta, and `ASGD` its rate, in f64; PyTorch in f32, for f64 parameters, too. `Adagrad` has an "
    "`initial_accumulator_value` for each group; PyTorch takes that of the whole optimizer.",
    "`ChainedScheduler` applies closed forms, each to the rate that those before it leave: also `LambdaLR` and `CosineAnnealingWarmRestarts`, "
    "which overwrite that rate in PyTorch, and `CosineAnnealingLR`, which follows a recursion there. `MultiplicativeLR` behind a milestone of "
    "`SequentialLR` begins with the optimizer's rate; in PyTorch with the last one times its first factor.",
    "A `Scheduler` that is stepped keeps what others did to the rate in between (another scheduler, `ReduceLROnPlateau`, `set_lr`), "
    "as a factor; in PyTorch so do schedulers with a recursion, while `LambdaLR`, `OneCycleLR` and `CyclicLR` overwrite it.",
    "`requires_grad_(false)` drops a leaf's gradient and hooks; in PyTorch both are there again after `requires_grad_(true)`.",
    "Attention on CUDA: a number below -2.3e38 in a floating mask hides its key, as minus infinity does (`finfo(f32).min` is one).",
    "`EmbeddingBag` with `max`: rows that are equal share the gradient; PyTorch gives it to the first one.",
    "Random numbers come from Philox with another numbering: the same seed draws other numbers than in PyTorch.",
]
